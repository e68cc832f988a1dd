"""Heads on their way through: what belongs to one connection only is dropped, both ways."""

from __future__ import annotations

from collections.abc import Iterable

from fencegate.core.outcomes import Headers

# RFC 9110 section 7.6.1 and 11.7: fields of one hop. Expect is ours to answer, and the token is
# shown to us.
HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
OF_THE_REQUEST = HOP_BY_HOP | {b"host", b"content-length", b"expect", b"fencegate-token"}
OUR_ANSWERS = frozenset({b"idempotency-replayed", b"idempotent-replayed"})


def request_head(
    method: str,
    target: bytes,
    host: bytes,
    headers: Headers,
    length: int,
    *,
    inject: Headers = (),
    via: bytes,
) -> bytes:
    """The head of the request as it goes upstream: the client's end-to-end fields in order, with
    `inject` in the place of fields of the same name, and one `Via` member of ours."""
    dropped = OF_THE_REQUEST | nominated(headers) | {name.lower() for name, _ in inject}
    lines = [method.encode("ascii") + b" " + target + b" HTTP/1.1", b"Host: " + host]
    lines += [name + b": " + value for name, value in headers if name.lower() not in dropped]
    lines += [name + b": " + value for name, value in inject]
    lines.append(b"Via: 1.1 " + via)
    if length or method in ("POST", "PUT", "PATCH"):
        lines.append(b"Content-Length: %d" % length)
    return b"\r\n".join(lines) + b"\r\n\r\n"


def answer_headers(headers: Iterable[tuple[bytes, bytes]], *, keep_length: bool) -> Headers:
    """The end-to-end fields of an answer in order. Names that are ours are dropped; the length is
    said anew, but for an answer that names it without having a body."""
    headers = tuple(headers)
    dropped = HOP_BY_HOP | OUR_ANSWERS | nominated(headers)
    if not keep_length:
        dropped |= {b"content-length"}
    return tuple(
        (name, value)
        for name, value in headers
        if name.lower() not in dropped and not name.lower().startswith(b"fencegate-")
    )


def nominated(headers: Iterable[tuple[bytes, bytes]]) -> frozenset[bytes]:
    """The names that `Connection` lists, lower-cased."""
    return frozenset(
        token.strip().lower()
        for name, value in headers
        if name.lower() == b"connection"
        for token in value.split(b",")
    )


def idle_limit(headers: Iterable[tuple[bytes, bytes]]) -> float | None:
    """The seconds in `Keep-Alive: timeout=5`, None where the peer does not say."""
    for name, value in headers:
        if name.lower() != b"keep-alive":
            continue
        for member in value.lower().split(b","):
            word, _, seconds = member.partition(b"=")
            if word.strip() == b"timeout" and seconds.strip().isdigit():
                return float(seconds)
    return None
