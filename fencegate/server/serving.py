"""From the first check to the last settlement."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager, suppress
from secrets import token_hex
from typing import Any

from fencegate.config import Settings
from fencegate.core.attempts import AttemptIds
from fencegate.core.events import Event, GatewayStarted, GatewayStopped, LedgerFailed
from fencegate.core.identity import NotAdopted
from fencegate.gateway.app import App
from fencegate.gateway.gate import Gate
from fencegate.gateway.holds import Holds
from fencegate.ledger.opening import open_ledger
from fencegate.ledger.protocol import Act, Ledger, LedgerUnavailable
from fencegate.ops.admin import admin_app
from fencegate.ops.tally import Tally
from fencegate.policy import Checked, Outside, Policies, PolicyError, check, identities
from fencegate.server.applied import Applied, Reloading, changed_identity, warn
from fencegate.server.draining import Draining
from fencegate.server.ports import address_of, listening, port, signals
from fencegate.server.readiness import Readiness

SWEEP_EVERY = 5.0  # seconds between two looks for what time has ended; the truth needs none
START_PATIENCE = 10.0  # seconds; a start is no call, and waits for a ledger that is busy
LOOK_AGAIN = 0.1  # seconds
SWEEP_STEP = 200  # records a step, so that a call waits for at most one short step


class NotStarted(Exception):
    """The policies are right, and still the gateway does not start with them."""


async def serve(settings: Settings, emit: Callable[[Event], None]) -> None:
    """Run until SIGTERM or SIGINT; then finish what is under way.

    Raises `PolicyError`, `LedgerUnusable`, `CannotListen` or `NotStarted` before anything is
    served.
    """
    outside = Outside(os.environ)
    checked = check(settings.policies, outside)
    if checked.policies is None:
        raise PolicyError(list(checked.problems))
    with ExitStack() as ports:
        data = ports.enter_context(listening(settings.listen, "--listen"))
        admin = settings.admin and ports.enter_context(listening(settings.admin, "--admin"))
        ledger = await open_ledger(settings.ledger)
        try:
            await _adopted(ledger, checked.policies, accept=settings.accept_identity_change)
            await _serve(settings, checked, outside, ledger, data, admin or None, emit)
        finally:
            await ledger.close()


async def _adopted(ledger: Ledger, policies: Policies, *, accept: bool) -> None:
    reason = "start with --accept-identity-change" if accept else "start"
    act = Act(f"process {os.getpid()}", reason)
    deadline = asyncio.get_running_loop().time() + START_PATIENCE
    while True:
        try:
            adopted = await ledger.adopt(identities(policies), accept=accept, act=act)
            break
        except LedgerUnavailable as error:
            if asyncio.get_running_loop().time() > deadline:
                why = f"the ledger cannot be asked: {error}; start again when it can"
                raise NotStarted(why) from error
            await asyncio.sleep(LOOK_AGAIN)
    if isinstance(adopted, NotAdopted):
        raise NotStarted(changed_identity(adopted))


async def _serve(
    settings: Settings,
    checked: Checked,
    outside: Outside,
    ledger: Ledger,
    data: socket.socket,
    admin: socket.socket | None,
    emit: Callable[[Event], None],
) -> None:
    policies = checked.policies
    assert policies is not None
    tally = Tally(emit)
    holds = Holds(ledger, policies.gateway.hold, tally)
    gate = Gate(ledger, holds, AttemptIds(token_hex(8)), tally)
    via = f"fencegate-{ledger.id[:12]}".encode()
    applied = Applied(policies, gate, via)
    readiness = Readiness(ledger, tally)
    app = App(gate, applied.intake(), readiness.why_not)
    reloading = Reloading(settings.policies, outside, gate, applied, app, tally)
    data_port = port(app)
    draining = Draining(data_port, readiness, applied, tally)
    admin_port = port(admin_app(reloading.reload, tally, ledger.id, readiness.why_not))

    def hangup() -> None:
        gate.start(reloading.reload(Act(f"process {os.getpid()}", "SIGHUP")))

    handlers = {
        signal.SIGTERM: lambda: draining.begin(delayed=True),
        signal.SIGINT: lambda: draining.begin(delayed=False),
        signal.SIGHUP: hangup,
    }
    beside = [holds.run(), readiness.run(), _sweep(ledger, tally)]
    with _beside(*beside), signals(handlers):
        admin_task = admin and asyncio.create_task(admin_port.serve(sockets=[admin]))
        emit(_started(ledger, policies, data, admin))
        warn(checked, emit)
        await data_port.serve(sockets=[data])
        unsettled = await gate.drained(draining.left())
        if admin_task:
            admin_port.stop(within=1)
            await admin_task
    applied.close()
    emit(GatewayStopped(unsettled))


@contextmanager
def _beside(*work: Coroutine[Any, Any, None]) -> Iterator[None]:
    """Work that goes on for as long as the block runs."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()


def _started(
    ledger: Ledger, policies: Policies, data: socket.socket, admin: socket.socket | None
) -> GatewayStarted:
    return GatewayStarted(
        ledger=ledger.id,
        upstreams=len(policies.upstreams),
        routes=len(policies.routes),
        listen=address_of(data),
        admin=None if admin is None else address_of(admin),
    )


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
