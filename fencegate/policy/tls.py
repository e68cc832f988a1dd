"""Files for the connection to an upstream."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Tls:
    """Files for the connection to an upstream: whom to trust, and who we are. `stamp` is a digest
    of what they held when they were checked."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    stamp: str = ""

    def stamped(self) -> Tls:
        """Raises OSError for a file that cannot be read."""
        held = sha256()
        for name in filter(None, (self.ca, self.cert, self.key)):
            held.update(sha256(Path(name).read_bytes()).digest())
        return replace(self, stamp=held.hexdigest())

    def context(self) -> ssl.SSLContext:
        """Raises OSError (SSLError is one) for a file that cannot be read or is no certificate."""
        context = ssl.create_default_context(cafile=self.ca)
        if self.cert is not None:
            context.load_cert_chain(self.cert, self.key, password=_no_password)
        return context


def _no_password() -> str:
    raise OSError("the key is encrypted; name a file with a key that is not")
