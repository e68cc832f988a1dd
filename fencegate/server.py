"""One gateway process: policies, ledger, legs and the data port, wired and taken down in order."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex

import uvicorn

from fencegate.config import Settings
from fencegate.core.attempts import AttemptIds
from fencegate.core.events import Event, GatewayStarted, GatewayStopped, LedgerFailed
from fencegate.gateway.app import App
from fencegate.gateway.gate import Gate
from fencegate.gateway.holds import Holds
from fencegate.gateway.intake import Intake
from fencegate.gateway.upstream import Leg, LegSettings
from fencegate.ledger.opening import open_ledger
from fencegate.ledger.protocol import Ledger, LedgerUnavailable
from fencegate.policy import Policies, Upstream, load

SWEEP_EVERY = 5.0  # seconds between two looks for what time has ended; the truth needs none
SWEEP_STEP = 200  # records a step, so that a call waits for at most one short step
DRAIN_SPARE = 5.0  # seconds beyond the longest timeout that calls under way are waited for


class CannotListen(Exception):
    """The address is taken, or not ours."""


async def serve(settings: Settings, emit: Callable[[Event], None]) -> None:
    """Run until SIGTERM or SIGINT; then finish what is under way.

    Raises `PolicyError`, `LedgerUnusable` or `CannotListen` before anything is served.
    """
    policies = load(settings.policies, os.environ)
    with _listening(settings.host, settings.port) as listener:
        ledger = await open_ledger(settings.ledger)
        try:
            await _serve(policies, ledger, listener, emit)
        finally:
            await ledger.close()


async def _serve(
    policies: Policies, ledger: Ledger, listener: socket.socket, emit: Callable[[Event], None]
) -> None:
    holds = Holds(ledger, policies.gateway.hold, emit)
    gate = Gate(ledger, holds, AttemptIds(token_hex(8)), emit)
    via = f"fencegate-{ledger.id[:12]}".encode()
    legs = {upstream.name: Leg(_leg(upstream, via)) for upstream in policies.upstreams}
    app = App(gate, Intake(policies, legs, gate.ids), policies.gateway.max_fence_lead, via)
    beside = [asyncio.create_task(holds.run()), asyncio.create_task(_sweep(ledger, emit))]
    emit(GatewayStarted(ledger.id, len(policies.upstreams), len(policies.routes)))

    drain = _longest_timeout(policies) + DRAIN_SPARE
    await _data_port(app, drain).serve(sockets=[listener])

    unsettled = await gate.drained(drain)
    for task in beside:
        task.cancel()
    for leg in legs.values():
        leg.close()
    emit(GatewayStopped(unsettled))


# --- the data port -------------------------------------------------------------------------


class _Port(uvicorn.Server):
    """uvicorn's sockets and protocol; signals end it without being raised once more."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)


def _data_port(app: App, drain: float) -> _Port:
    """No header of uvicorn's own, no trust in forwarding headers, no log but ours."""
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=int(drain) + 1,
    )
    return _Port(config)


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    """Bound before anything else is opened, so that a taken port costs nothing."""
    try:
        listener = socket.create_server(
            (host, port),
            family=socket.AF_INET6 if ":" in host else socket.AF_INET,
            backlog=2048,
        )
    except OSError as error:
        raise CannotListen(
            f"cannot listen on {host}:{port}: {error.strerror or error}; "
            "name another address with --listen HOST:PORT"
        ) from error
    with listener:
        yield listener


# --- wiring --------------------------------------------------------------------------------


def _leg(upstream: Upstream, via: bytes) -> LegSettings:
    return LegSettings(
        host=upstream.host,
        port=upstream.port,
        tls=ssl.create_default_context() if upstream.scheme == "https" else None,
        inject=upstream.headers,
        via=via,
        reuse_within=upstream.reuse_within,
    )


def _longest_timeout(policies: Policies) -> float:
    timeouts = [route.timeout for route in policies.routes]
    return max([*timeouts, *(upstream.timeout for upstream in policies.upstreams)], default=0.0)


async def _sweep(ledger: Ledger, emit: Callable[[Event], None]) -> None:
    """Write down what time has ended, in small steps."""
    while True:
        await asyncio.sleep(SWEEP_EVERY)
        try:
            while await ledger.expire(SWEEP_STEP) == SWEEP_STEP:
                await asyncio.sleep(0)
        except LedgerUnavailable as error:
            emit(LedgerFailed("expire", str(error), error.unclear))


def run(settings: Settings, emit: Callable[[Event], None]) -> None:
    """`serve` on uvloop."""
    import uvloop

    with suppress(KeyboardInterrupt):
        uvloop.run(serve(settings, emit))
