"""Where a scenario is played: an upstream, a ledger's file, gateways on it, and their clients.

Everything is the stage's own: a folder, ports, processes. What the clients were told is kept for
the judge. Waiting is for facts; a fact that a strike has made impossible ends the waiting too.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import TracebackType

from tests.crash.checker import Call, Log, Said
from tests.crash.client import post, status_of
from tests.crash.instrumented import Strike, environment
from tests.crash.nursery import DEADLINE, Nursery, Process, Stuck
from tests.crash.upstream import Upstream, reserve_port

POLL = 0.005
BETWEEN_TRIES = 0.03
RETRIED = ("in_flight", "predecessor_open", "ledger_unavailable", "not_sent", "upstream_busy")

ENTITY = "c-1"
HOLD = "700ms"

GATEWAY = """\
callers: off
gateway:
  hold: {hold}
  drain_delay: 0s
  tombstone: {tombstone}
defaults:
  timeout: 2s
  connect_timeout: 2s
  duplicate_wait: {wait}
  predecessor_wait: {wait}
"""
UPSTREAM = """\
upstream:
  name: payments
  mount: /pay
  url: http://127.0.0.1:{port}
{settings}
routes:
  - match: POST /v1/charges/{{charge}}
    entity: charge:{{path.charge}}
"""


class Missed(Exception):
    """The machine was too slow for the story: it went another way, and proves nothing."""


class Gateway:
    """One gateway process. `passed` are the points that it has passed, if it has hooks."""

    def __init__(self, process: Process, port: int, trace: Path) -> None:
        self.process = process
        self.port = port
        self._trace = trace

    @property
    def passed(self) -> list[str]:
        return self._trace.read_text().splitlines() if self._trace.exists() else []


class Nurseries:
    """Where gateways come from, with and without hooks."""

    def __init__(self) -> None:
        self.plain = Nursery(with_hooks=False)
        self.hooked = Nursery(with_hooks=True)

    def __enter__(self) -> Nurseries:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.plain.close()
        self.hooked.close()


class Stage:
    """A context manager; leaving it ends every process and frees every port."""

    def __init__(
        self,
        nurseries: Nurseries,
        folder: Path,
        *,
        settings: str = "",
        wait: str = "300ms",
        tombstone: str = "400d",
    ) -> None:
        self.upstream = Upstream()
        self.prologue = 0  # points that were passed before the story began
        self._nurseries = nurseries
        self._folder = folder
        self._said: list[Said] = []
        self._numbers = count(1)
        self._gateways: list[Gateway] = []
        self._ports: list[socket.socket] = []
        self._clients = ThreadPoolExecutor(4, thread_name_prefix="client")
        (folder / "policies").mkdir()
        gateway = GATEWAY.format(hold=HOLD, tombstone=tombstone, wait=wait)
        (folder / "policies" / "gateway.yaml").write_text(gateway)
        upstream = UPSTREAM.format(port=self.upstream.port, settings=settings)
        (folder / "policies" / "payments.yaml").write_text(upstream)

    def __enter__(self) -> Stage:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end_gateways()
        self.upstream.release.set()
        self._clients.shutdown()
        self.upstream.stop()
        for port in self._ports:
            port.close()

    # --- gateways --------------------------------------------------------------------------

    def hooked(self, strikes: Sequence[Strike] = ()) -> Gateway:
        """A gateway that does to itself what the strikes say."""
        return self._gateway(self._nurseries.hooked, strikes)

    def plain(self) -> Gateway:
        """A gateway as it is."""
        return self._gateway(self._nurseries.plain, ())

    def _gateway(self, nursery: Nursery, strikes: Sequence[Strike]) -> Gateway:
        port = self.reserve()
        number = len(self._gateways) + 1
        trace = self._folder / f"gateway-{number}.trace"
        log = self._folder / f"gateway-{number}.log"
        environ = environment(strikes, trace=str(trace), turn=str(self.turn))
        process = nursery.spawn(self.arguments(port), environ, log)
        gateway = Gateway(process, port, trace)
        self._gateways.append(gateway)
        if not self.is_up(port, lambda: process.ended):
            raise Stuck(f"the gateway does not come up: {log.read_text()}")
        return gateway

    def reserve(self) -> int:
        """A port for a gateway, that nobody else gets while this stage stands."""
        self._ports.append(reserve_port())
        port: int = self._ports[-1].getsockname()[1]
        return port

    def arguments(self, port: int) -> list[str]:
        """Of the ordinary command, on this stage's policies and ledger."""
        ports = ["--listen", f"127.0.0.1:{port}", "--admin", "off"]
        return ["serve", str(self._folder / "policies"), "--ledger", self.ledger, *ports]

    @property
    def ledger(self) -> str:
        return f"sqlite:///{self._folder / 'ledger.db'}"

    @property
    def turn(self) -> Path:
        """The lock among the processes that write to the ledger."""
        return self._folder / "ledger.db-turn"

    def is_up(self, port: int, ended: Callable[[], bool]) -> bool:
        """Wait until a gateway answers; False if it has ended or takes for ever."""
        end = time.monotonic() + DEADLINE
        while status_of(port, "GET", "/_fencegate/readyz") != 200:
            if ended() or time.monotonic() > end:
                return False
            time.sleep(POLL)
        return True

    def end_gateways(self) -> None:
        """Kill what still lives, and wait for the end of each."""
        for gateway in self._gateways:
            gateway.process.send(signal.SIGKILL)
        for gateway in self._gateways:
            gateway.process.wait()

    @property
    def passed(self) -> list[str]:
        """The points that the gateways with hooks have passed."""
        return [point for gateway in self._gateways for point in gateway.passed]

    def story_begins(self) -> None:
        """What has been passed up to here is told by other scenarios. Nothing may be under way
        but what is stopped."""
        self.prologue = len(self.passed)

    def kill(self, gateway: Gateway) -> None:
        gateway.process.send(signal.SIGKILL)
        gateway.process.wait()

    def struck(self, gateway: Gateway, strike: Strike) -> None:
        """Wait for the end that a strike has brought; raises `Missed` if its point was not
        passed."""
        if gateway.passed.count(strike.point) < strike.passage:
            raise Missed(f"{strike.point} was not passed")
        if (code := gateway.process.wait()) != -signal.SIGKILL:
            raise Stuck(f"the gateway ended with {code}, not by SIGKILL")

    @contextmanager
    def ledger_away(self) -> Iterator[None]:
        """Another process has the turn to write, and does not give it back."""
        turn = os.open(self.turn, os.O_RDWR)
        try:
            fcntl.flock(turn, fcntl.LOCK_EX)
            yield
        finally:
            os.close(turn)

    # --- clients ---------------------------------------------------------------------------

    def call(self, gateway: Gateway, fence: int, key: str) -> Said:
        """A worker's call, to its answer or its cut connection."""
        return self.call_port(gateway.port, fence, key)

    def call_port(self, port: int, fence: int, key: str) -> Said:
        body = b'{"pay":"%s"}' % key.encode()
        call = Call(f"call-{next(self._numbers)}", ENTITY, fence, key, body)
        began = time.monotonic()
        answer = post(port, f"/pay/v1/charges/{call.entity}", call)
        said = Said(call, began, time.monotonic(), answer)
        self._said.append(said)
        return said

    def later(self, gateway: Gateway, fence: int, key: str) -> Future[Said]:
        """The same in a thread of its own."""
        return self._clients.submit(self.call, gateway, fence, key)

    def repeat(self, gateway: Gateway, fence: int, key: str) -> Said:
        """Repeat a call as long as the answer allows it."""
        return self._repeat(_is_final, gateway, fence, key)

    def later_until(
        self, ended: Callable[[Said], bool], gateway: Gateway, fence: int, key: str
    ) -> Future[Said]:
        """In a thread of its own, repeat a call until it has ended like this."""
        return self._clients.submit(self._repeat, ended, gateway, fence, key)

    def _repeat(
        self, ended: Callable[[Said], bool], gateway: Gateway, fence: int, key: str
    ) -> Said:
        end = time.monotonic() + DEADLINE
        while not ended(said := self.call(gateway, fence, key)):
            if time.monotonic() > end:
                raise Missed(f"{said.call} is still answered {said}")
            time.sleep(BETWEEN_TRIES)
        return said

    def until(self, fact: Callable[[], bool], gateway: Gateway) -> None:
        """Wait for a fact, or for the end of the gateway that was to bring it about."""
        end = time.monotonic() + DEADLINE
        while not fact() and not gateway.process.ended:
            if time.monotonic() > end:
                raise Missed("the story does not go on")
            time.sleep(POLL)

    def has_accepted(self, gateway: Gateway, fence: int) -> bool:
        """Is high water at this fence? Asked by announcing the one below."""
        path = f"/_fencegate/v1/entities/charge:{ENTITY}/fence"
        return status_of(gateway.port, "PUT", path, {"X-Execution-Fence": str(fence - 1)}) == 412

    # --- the end ---------------------------------------------------------------------------

    def log(self) -> Log:
        """Everything that was said and written, when nothing more can come."""
        self.end_gateways()
        self.upstream.recover()
        self.upstream.caught_up()
        return Log(tuple(self._said), self.upstream.writes)


def _is_final(said: Said) -> bool:
    return said.answer is not None and said.answer.code not in RETRIED
