"""The headers that a gateway sets on what it sends, with `${NAME}` filled in from outside.

What comes from outside is a secret: no message and no repr shows it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from fencegate.policy.values import TOKEN

# Set by whoever writes the message, or read by the gateway itself.
_OURS = frozenset({
    "connection", "content-length", "expect", "host", "http2-settings", "idempotency-key",
    "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
    "x-execution-fence", "x-execution-holder", "x-fence-domain",
})  # fmt: skip
_REFERENCE = re.compile(r"\$\{([^}]*)\}?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def fill_header(name: str, written: str, environ: Mapping[str, str]) -> tuple[bytes, bytes]:
    """A header line with its value filled in; ValueError says what is wrong, never the value."""
    if not TOKEN.fullmatch(name):
        raise ValueError(f"`{name}` is no name of a header")
    if name.lower() in _OURS or name.lower().startswith("fencegate-"):
        raise ValueError(f"`{name}` cannot be set here: the gateway writes or reads it itself")
    value = _REFERENCE.sub(lambda reference: _variable(reference, environ), written)
    if not re.fullmatch(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?", value):
        raise ValueError(
            f"the value of `{name}` must be printable ASCII, not empty and without space at its"
            f" ends{_advice(written)}"
        )
    return name.encode(), value.encode()


def _variable(reference: re.Match[str], environ: Mapping[str, str]) -> str:
    name = reference[1]
    if not reference[0].endswith("}") or not _VARIABLE.fullmatch(name):
        raise ValueError("`${` begins a variable, ${NAME}, of letters, digits and _")
    if not environ.get(name):
        state = "empty" if name in environ else "not set"
        raise ValueError(f"the environment variable {name} is {state}")
    return environ[name]


def _advice(written: str) -> str:
    return "; look for a line break in the variable" if "${" in written else ""
