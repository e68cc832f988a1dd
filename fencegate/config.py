"""What a process is told at its start. Read once, from flags and the environment."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path

DEFAULT_LEDGER = "sqlite:///fencegate.db"
DEFAULT_LISTEN = "127.0.0.1:8080"
DEFAULT_ADMIN = "127.0.0.1:9080"

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of `serve`. `admin` None: no admin port."""

    policies: Path
    ledger: str
    listen: Address
    admin: Address | None
    accept_identity_change: bool = False


def read_listen(text: str) -> Address:
    """`host:port` or `[v6]:port`; ValueError says what is expected."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{text!r} is no address to listen on; expected HOST:PORT")
    return host, int(port)


def read_admin(text: str) -> Address | None:
    """An address of this machine alone, None for `off`; ValueError for any other, since nobody is
    asked who they are there."""
    if text == "off":
        return None
    host, port = read_listen(text)
    if host != "localhost" and not _is_loopback(host):
        raise ValueError(f"{text!r} is open to others; expected 127.0.0.1:PORT or [::1]:PORT")
    return host, port


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
