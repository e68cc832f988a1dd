"""One answer as it is read, on httptools: complete, broken, or not there yet."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

import httptools

from fencegate.core.outcomes import Answer
from fencegate.gateway.upstream.head import answer_headers, idle_limit


class Stage(Enum):
    HEAD = auto()
    BODY = auto()
    COMPLETE = auto()
    BROKEN = auto()


class Reading:
    """Feeds bytes to a parser until one final answer is complete.

    Interim answers (1xx) are skipped. `left_over` says that bytes came behind the answer: the
    connection must not carry another call.
    """

    def __init__(self, method: str, progressed: Callable[[], None]) -> None:
        self.stage = Stage.HEAD
        self.left_over = False
        self._head_only = method == "HEAD"
        self._progressed = progressed
        self._status = 0
        self._headers: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._parser = httptools.HttpResponseParser(self)
        self._keep_alive = False

    def feed(self, data: bytes) -> None:
        if self.stage is Stage.COMPLETE:
            self.left_over = True
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._broken()

    def end(self) -> None:
        """The peer closed cleanly: that completes only a body which is delimited by the close."""
        if self.stage is Stage.BODY and self._ends_with_connection():
            self._keep_alive = False
            self.stage = Stage.COMPLETE

    def _broken(self) -> None:
        """Nonsense behind a complete answer does not undo it."""
        if self.stage is Stage.COMPLETE:
            self.left_over = True
        else:
            self.stage = Stage.BROKEN

    def answer(self) -> Answer:
        without_body = self._head_only or self._status in (204, 304)
        headers = answer_headers(self._headers, keep_length=without_body)
        return Answer(self._status, headers, b"".join(self._body))

    @property
    def reusable(self) -> bool:
        return self._keep_alive and not self.left_over and not self._head_only

    @property
    def idle_limit(self) -> float | None:
        """For how many seconds the upstream keeps an idle connection, where it says so."""
        return idle_limit(self._headers)

    # --- called by the parser --------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self.stage is Stage.COMPLETE:
            self.left_over = True

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.stage is Stage.HEAD:  # what comes later are trailers, and dropped
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._interim() or self.stage is not Stage.HEAD:
            return
        # Noted now: what comes behind the answer has a status too.
        self._status = self._parser.get_status_code()
        codings = [v.strip().lower() for n, v in self._headers if n.lower() == b"transfer-encoding"]
        sound = 200 <= self._status <= 599 and codings in ([], [b"chunked"])
        self.stage = Stage.BODY if sound else Stage.BROKEN
        self._progressed()
        if self._head_only and self.stage is Stage.BODY:
            self.stage = Stage.COMPLETE

    def on_body(self, data: bytes) -> None:
        if self.stage is Stage.BODY:
            self._body.append(data)
            self._progressed()

    def on_message_complete(self) -> None:
        if self._interim():
            self._headers.clear()
        elif self.stage is Stage.BODY:
            self._keep_alive = self._parser.should_keep_alive()
            self.stage = Stage.COMPLETE

    def _interim(self) -> bool:
        return self.stage is Stage.HEAD and 100 <= self._parser.get_status_code() < 200

    def _ends_with_connection(self) -> bool:
        framed = (b"content-length", b"transfer-encoding")
        return not any(name.lower() in framed for name, _ in self._headers)
