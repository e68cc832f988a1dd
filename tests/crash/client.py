"""A plain HTTP client that sends once and says what came of it."""

from __future__ import annotations

import http.client
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tests.crash.checker import Answer, Call
from tests.crash.nursery import DEADLINE, Stuck


def post(port: int, path: str, call: Call) -> Answer | None:
    """The answer to a call; None if the connection was cut or refused."""
    headers = {
        "Content-Type": "application/json",
        "X-Execution-Fence": str(call.fence),
        "Idempotency-Key": call.key,
        "X-Call": call.id,
    }
    with _connection(port, 2 * DEADLINE) as connection:
        try:
            connection.request("POST", path, call.body, headers)
            response = connection.getresponse()
            return Answer(response.status, tuple(response.getheaders()), response.read())
        except TimeoutError:
            raise Stuck(f"{call} was neither answered nor cut") from None
        except (OSError, http.client.HTTPException):
            return None


def status_of(
    port: int, method: str, path: str, headers: Mapping[str, str] | None = None
) -> int | None:
    """The status of one of the gateway's own paths; None if there is no answer."""
    with _connection(port, DEADLINE) as connection:
        try:
            connection.request(method, path, headers=headers or {})
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return None


@contextmanager
def _connection(port: int, timeout: float) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        yield connection
    finally:
        connection.close()
