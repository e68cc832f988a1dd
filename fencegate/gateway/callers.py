"""Who makes a call: the token that it shows, which is for us and never goes upstream."""

from __future__ import annotations

from dataclasses import dataclass

from fencegate.core.outcomes import Headers
from fencegate.gateway.protected import TOKEN
from fencegate.policy import Callers

AUTHORIZATION = b"authorization"


@dataclass(frozen=True, slots=True)
class Shown:
    """The caller, None where none are configured, and the field in which its token was shown."""

    caller: str | None
    field: bytes | None = None

    def without_token(self, headers: Headers) -> Headers:
        if self.field is None:
            return headers
        return tuple(header for header in headers if header[0].lower() != self.field)


NOBODY = Shown("")  # no caller has this name


def who(callers: Callers | None, headers: Headers) -> Shown | None:
    """The caller by `Fencegate-Token`, or where that is not sent by `Authorization: Bearer`; None
    if it is nobody that the policy knows."""
    if callers is None:
        return Shown(None)
    field = TOKEN if any(name.lower() == TOKEN for name, _ in headers) else AUTHORIZATION
    lines = [value for name, value in headers if name.lower() == field]
    if len(lines) != 1:
        return None
    token = lines[0].strip(b" \t")
    if field == AUTHORIZATION:
        scheme, _, token = token.partition(b" ")
        if scheme.lower() != b"bearer":
            return None
    caller = callers.who(token.strip(b" "))
    return None if caller is None else Shown(caller, field)


def without_known_tokens(callers: Callers | None, headers: Headers) -> Headers:
    """The headers of somebody unknown: a token that is ours stays here, wherever it was shown."""
    if callers is None:
        return headers
    return tuple(h for h in headers if who(callers, (h,)) is None)
