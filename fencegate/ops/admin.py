"""The admin port as an ASGI application: what operators' commands ask of a running gateway.

It is for this machine only. A web page that the operator happens to have open must not be able to
use it: acts with an `Origin` are refused, and so is a `Host` that is a name of somebody else's.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from fencegate.ledger.protocol import Act
from fencegate.ops.tally import Tally

Reload = Callable[[Act], Awaitable[Any]]


def admin_app(
    reload: Reload, tally: Tally, ledger_id: str, why_not_ready: Callable[[], str | None]
) -> Starlette:
    """`reload` answers with a dataclass that has `why` where it was refused."""

    async def livez(request: Request) -> Response:
        return JSONResponse({"live": True})

    async def readyz(request: Request) -> Response:
        why = why_not_ready()
        if why is None:
            return JSONResponse({"ready": True, "ledger": ledger_id})
        return JSONResponse({"ready": False, "ledger": ledger_id, "why": why}, 503)

    async def do_reload(request: Request) -> Response:
        told = await reload(Act(f"admin port of process {os.getpid()}", "reload"))
        return JSONResponse(asdict(told), status_code=409 if hasattr(told, "why") else 200)

    async def observed(request: Request) -> Response:
        return JSONResponse(tally.report())

    return Starlette(
        routes=[
            Route("/livez", livez),
            Route("/readyz", readyz),
            Route("/api/v1/reload", do_reload, methods=["POST"]),
            Route("/api/v1/observed", observed),
        ],
        middleware=[Middleware(OnlyFromHere)],
    )


class OnlyFromHere:
    """Requests that no other site can have made."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            request = Request(scope)
            if "origin" in request.headers and request.method != "GET":
                refused = JSONResponse({"detail": "Acts of web pages are refused."}, 403)
                return await refused(scope, receive, send)
            if not _is_address(request.headers.get("host", "")):
                refused = JSONResponse({"detail": "Ask by address, such as 127.0.0.1."}, 403)
                return await refused(scope, receive, send)
        return await self._app(scope, receive, send)


def _is_address(host: str) -> bool:
    """An address or localhost: a name of another site may resolve to us (DNS rebinding)."""
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    if name.lower() == "localhost":
        return True
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True
