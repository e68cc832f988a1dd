"""What a process is told at its start. Read once, from flags and the environment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DEFAULT_LEDGER = "sqlite:///fencegate.db"
DEFAULT_LISTEN = "127.0.0.1:8080"


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of `serve`."""

    policies: Path
    ledger: str
    host: str
    port: int


def read_listen(text: str) -> tuple[str, int]:
    """`host:port` or `[v6]:port`; ValueError says what is expected."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{text!r} is no address to listen on; expected HOST:PORT")
    return host, int(port)
