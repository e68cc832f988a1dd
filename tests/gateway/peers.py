"""The double while it runs, and peers for what it cannot be: one that does not read, speaks TLS
or hangs up."""

from __future__ import annotations

import asyncio
import fcntl
import socket
import ssl
import struct
import termios
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from tests.double import Double

Play = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

# A key that protects nothing: it is for `localhost` in these tests.
KEY = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg5rgzoHgbRqMfMcs5
v3W7Z4dG4AssXZDfe4MAW+Bpx3OhRANCAASRvchEU70EGNd7d7P4uDRQVAAjNXmG
8TclvK41rRGRdoLX6rF2DmTdZYCBySff1D2SD1RIz1HIFQu/11WW/ASj
-----END PRIVATE KEY-----
"""
CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBYTCCAQegAwIBAgIBATAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAlsb2NhbGhv
c3QwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMBQxEjAQBgNVBAMM
CWxvY2FsaG9zdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABJG9yERTvQQY13t3
s/i4NFBUACM1eYbxNyW8rjWtEZF2gtfqsXYOZN1lgIHJJ9/UPZIPVEjPUcgVC7/X
VZb8BKOjSDBGMBQGA1UdEQQNMAuCCWxvY2FsaG9zdDAPBgNVHRMBAf8EBTADAQH/
MB0GA1UdDgQWBBR8e5PXEkir0FIIacgTiaLKQq29YzAKBggqhkjOPQQDAgNIADBF
AiEAqAGyYDCYvsEXTRHB+zlwLKxYo38Lvb9EgvOHkntXfHkCICHjPgAYpt4/w1U+
OcK4gNXFWeucb9uyBms7UeVBn0CL
-----END CERTIFICATE-----
"""


@contextmanager
def upstream_up(port: int = 0) -> Iterator[Double]:
    """A double on this port (0: a free one); at the end it drops what it was about to say."""
    double = Double(port=port).start()
    yield double
    double.stop()


@asynccontextmanager
async def listening(play: Play, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Serve connections on a free port of loopback, on the loop of the test."""

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await play(reader, writer)
        writer.close()

    server = await asyncio.start_server(served, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def nobody_listens() -> int:
    """A port of loopback on which a connection is refused."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def serving_tls(folder: Path) -> ssl.SSLContext:
    (folder / "certificate.pem").write_text(CERTIFICATE)
    (folder / "key.pem").write_text(KEY)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    return context


def trusting() -> ssl.SSLContext:
    return ssl.create_default_context(cadata=CERTIFICATE)


async def delivered(writer: asyncio.StreamWriter) -> None:
    """The peer's kernel has all that was written."""
    descriptor = writer.get_extra_info("socket").fileno()
    await writer.drain()
    while struct.unpack("i", fcntl.ioctl(descriptor, termios.TIOCOUTQ, b"\0\0\0\0"))[0]:
        await asyncio.sleep(0.001)
