"""The ports of a process: bound before anything else is opened, served by uvicorn."""

from __future__ import annotations

import asyncio
import logging
import math
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import uvicorn

IDLE_LIMIT = 75  # seconds; longer than the idle limit of what is commonly put in front


class CannotListen(Exception):
    """The address is taken, or not ours."""


class Port(uvicorn.Server):
    """uvicorn's sockets and protocol, which ends when it is told to and hears no signals."""

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        return nullcontext()

    def stop(self, within: float) -> None:
        """Take no more connections, and wait so many seconds for those that are there."""
        self.config.timeout_graceful_shutdown = math.ceil(within)
        self.should_exit = True

    def force(self) -> None:
        """Wait no more."""
        self.force_exit = True


def port(app: Any) -> Port:
    # uvicorn speaks of what it parses; the log is ours alone.
    logging.getLogger("uvicorn.error").addHandler(logging.NullHandler())
    logging.getLogger("uvicorn.error").propagate = False
    return Port(config_of(app))


@contextmanager
def signals(handlers: Mapping[signal.Signals, Callable[[], None]]) -> Iterator[None]:
    """Call these for signals, on the loop, while the block runs."""
    loop = asyncio.get_running_loop()
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)


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
