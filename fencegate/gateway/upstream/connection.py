"""One connection to an upstream, carrying one exchange at a time."""

from __future__ import annotations

import asyncio
import select
import ssl
from typing import cast

from fencegate.core.outcomes import Answer, Doubt, Evidence, OutcomeUnknown
from fencegate.gateway.upstream.reading import Reading, Stage


class Connection(asyncio.Protocol):
    """After `write` the call may have had its effect, whatever happens to the connection."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reading: Reading | None = None
        self._ended: asyncio.Future[Answer | OutcomeUnknown] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timeout = 0.0
        self._progress_at = 0.0
        self._unsent = 0  # bytes that the kernel has not taken, when last looked at
        self._idle_limit: float | None = None
        self.idle_since = self._loop.time()

    # --- before a call ---------------------------------------------------------------------

    @property
    def closing(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    @property
    def silent(self) -> bool:
        """Does it show neither an end nor bytes that nobody asked for?"""
        return not self.closing and not self._shows_something()

    def fresh(self, reuse_within: float) -> bool:
        """May it carry another call: idle for less than this, and showing no end?"""
        return self.young(reuse_within) and self.silent

    def young(self, reuse_within: float) -> bool:
        said = self._idle_limit
        limit = reuse_within if said is None else min(reuse_within, said)
        return not self.closing and self._loop.time() - self.idle_since < limit

    def interrupt(self) -> None:
        """Give the exchange up: it was sent, and its end will not be known."""
        self._end(_unknown(Doubt.INTERRUPTED))
        self.close()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _shows_something(self) -> bool:
        """Has the kernel an end, or bytes nobody asked for, that the loop has not read yet?"""
        assert self._transport is not None
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket").fileno(), select.POLLIN)
        return bool(poll.poll(0))

    # --- a call ----------------------------------------------------------------------------

    def write(self, method: str, head: bytes, body: bytes, timeout: float) -> None:
        """Put the request on the wire; from here on it counts as sent."""
        assert self._transport is not None
        assert self._ended is None, "one exchange at a time"
        self._reading = Reading(method, self._progressed)
        self._ended = self._loop.create_future()
        self._timeout = timeout
        self._progressed()
        self._timer = self._loop.call_later(timeout, self._check_time)
        self._transport.writelines([head, body] if body else [head])

    async def ended(self) -> Answer | OutcomeUnknown:
        """Wait for the end of the exchange; then `reusable` tells what the connection is worth."""
        assert self._ended is not None
        assert self._reading is not None
        try:
            return await self._ended
        finally:
            if self._timer is not None:
                self._timer.cancel()
            self._ended = None
            self._idle_limit = self._reading.idle_limit
            self.idle_since = self._loop.time()

    @property
    def reusable(self) -> bool:
        reading = self._reading
        return reading is not None and reading.reusable and not self._unsent and not self.closing

    def _progressed(self) -> None:
        self._progress_at = self._loop.time()

    def _check_time(self) -> None:
        self._note_sent()
        left = self._progress_at + self._timeout - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._check_time)
        else:
            self._end(_unknown(Doubt.TIMEOUT))
            self.close()

    def _note_sent(self) -> None:
        """A large body that leaves bit by bit is progress too."""
        assert self._transport is not None
        unsent = self._transport.get_write_buffer_size()
        if unsent < self._unsent:
            self._unsent = unsent
            self._progressed()

    def _end(self, how: Answer | OutcomeUnknown) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(how)

    def _read(self) -> None:
        assert self._reading is not None
        if self._reading.stage is Stage.COMPLETE:
            self._end(self._reading.answer())
        elif self._reading.stage is Stage.BROKEN:
            self._end(_unknown(Doubt.BROKEN_ANSWER))
            self.close()

    # --- called by the transport -----------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self._transport.set_write_buffer_limits(high=0)  # `resume_writing`: the last byte left

    def data_received(self, data: bytes) -> None:
        if self._reading is None or self._ended is None:
            self.close()  # nobody asked: an answer that belongs to no call
            return
        self._reading.feed(data)
        self._read()

    def eof_received(self) -> None:
        if self._reading is None or self._ended is None:
            return
        if not self._cut_off():
            self._reading.end()
        if self._reading.stage is Stage.COMPLETE:
            self._end(self._reading.answer())
        else:
            self._end(_unknown(Doubt.CONNECTION_LOST))
            self.close()

    def _cut_off(self) -> bool:
        """Has TLS ended without its closing alert? Anybody on the way may have done that, so it
        ends no body (RFC 9112 section 9.8). Behind the alert reading gives the empty end."""
        assert self._transport is not None
        tls = self._transport.get_extra_info("ssl_object")
        try:
            return tls is not None and tls.read(1) != b""
        except ssl.SSLError:
            return True

    def connection_lost(self, error: Exception | None) -> None:
        self._end(_unknown(Doubt.CONNECTION_LOST))

    def pause_writing(self) -> None:
        assert self._transport is not None
        self._unsent = self._transport.get_write_buffer_size()

    def resume_writing(self) -> None:
        self._unsent = 0
        self._progressed()


def _unknown(doubt: Doubt) -> OutcomeUnknown:
    return OutcomeUnknown(Evidence(doubt))
