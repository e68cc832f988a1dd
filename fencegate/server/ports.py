"""The ports of a process: bound before anything else is opened, served by uvicorn."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import uvicorn

IDLE_LIMIT = 75  # seconds; longer than the idle limit of what is commonly put in front


class CannotListen(Exception):
    """The address is taken, or not ours."""


class Port(uvicorn.Server):
    """uvicorn's sockets and protocol. Signals end the data port, without being raised once more;
    `hangup` is called for SIGHUP. The admin port is told when to end."""

    def __init__(
        self,
        config: uvicorn.Config,
        hangup: Callable[[], None] | None,
        drain: Callable[[], float],
    ) -> None:
        super().__init__(config)
        self._hangup = hangup
        self._drain = drain

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.config.timeout_graceful_shutdown = int(self._drain()) + 1
        await super().shutdown(sockets)

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        return nullcontext() if self._hangup is None else self._captured(self._hangup)

    @contextmanager
    def _captured(self, hangup: Callable[[], None]) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        loop.add_signal_handler(signal.SIGHUP, hangup)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                loop.remove_signal_handler(number)


def data_port(app: Any, drain: Callable[[], float], hangup: Callable[[], None]) -> Port:
    """Drained for as many seconds as `drain` says when it ends."""
    return Port(config_of(app), hangup, drain)


def admin_port(app: Any) -> Port:
    return Port(config_of(app), None, lambda: 1.0)


def config_of(app: Any) -> uvicorn.Config:
    """No header of uvicorn's own, no trust in forwarding headers, no log but ours."""
    return uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=IDLE_LIMIT,
    )


@contextmanager
def listening(address: tuple[str, int], flag: str) -> Iterator[socket.socket]:
    """A bound socket; `flag` is the option that names another address."""
    host, port = address
    try:
        listener = socket.create_server(
            (host, port),
            family=socket.AF_INET6 if ":" in host else socket.AF_INET,
            backlog=2048,
        )
    except OSError as error:
        raise CannotListen(
            f"cannot listen on {host}:{port}: {error.strerror or error}; "
            f"name another address with {flag} HOST:PORT"
        ) from error
    with listener:
        yield listener


def address_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
