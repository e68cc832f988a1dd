"""The leg to an upstream: one attempt, at most one write, and every end of it is a value."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fencegate.core.outcomes import (
    Answer,
    Doubt,
    Evidence,
    Headers,
    NotSent,
    OutcomeUnknown,
    Unsent,
)
from fencegate.gateway.upstream import Leg, LegSettings, Outgoing
from tests.double import Double, Hit, Script, do_cut, do_drop, ok, raw, read_drop
from tests.gateway.peers import delivered, listening, nobody_listens, serving_tls, trusting
from tests.gateway.scripts import (
    close,
    nothing,
    noting,
    say,
    say_then_reset,
    then,
    trickle,
)

LARGE = b"x" * (16 << 20)  # more than the kernel takes in at once
WHOLE = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok"


def leg_to(
    port: int,
    *,
    host: str = "127.0.0.1",
    tls: ssl.SSLContext | None = None,
    inject: Headers = (),
    reuse_within: float = 60.0,
) -> Leg:
    return Leg(LegSettings(host, port, tls, inject, b"gate", reuse_within))


def outgoing(
    method: str = "POST",
    target: bytes = b"/charges",
    headers: Headers = (),
    body: bytes = b"{}",
    *,
    timeout: float = 5.0,
    connect_timeout: float = 5.0,
) -> Outgoing:
    return Outgoing(method, target, headers, body, connect_timeout, timeout)


async def send(leg: Leg, *request: Any, **settings: Any) -> Answer | NotSent | OutcomeUnknown:
    return await leg.forward(outgoing(*request, **settings), lambda: True)


async def answered(leg: Leg, *request: Any, **settings: Any) -> Answer:
    ended = await send(leg, *request, **settings)
    assert isinstance(ended, Answer), ended
    return ended


def unknown(doubt: Doubt) -> OutcomeUnknown:
    return OutcomeUnknown(Evidence(doubt))


async def looked_around() -> None:
    """The loop has read what was in the kernel when this was called."""
    for _ in range(5):
        await asyncio.sleep(0)


# --- not sent ------------------------------------------------------------------------------


async def test_a_refused_connection_is_not_sent() -> None:
    assert await send(leg_to(nobody_listens())) == NotSent(Unsent.NO_CONNECTION)


@pytest.mark.parametrize(
    "host", ["no-such-host.invalid", "a" * 64 + ".invalid", "a..invalid"], ids=lambda h: h[:12]
)
async def test_a_name_that_does_not_resolve_is_not_sent(host: str) -> None:
    assert await send(leg_to(80, host=host)) == NotSent(Unsent.NO_CONNECTION)


async def test_an_untrusted_certificate_is_not_sent(tmp_path: Path) -> None:
    read: list[bytes] = []

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        read.append(await reader.read())

    async with listening(play, serving_tls(tmp_path)) as port:
        leg = leg_to(port, host="localhost", tls=ssl.create_default_context())
        assert await send(leg) == NotSent(Unsent.NO_CONNECTION)
        await looked_around()
    assert not any(read)


async def test_a_certificate_for_another_name_is_not_sent(tmp_path: Path) -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with listening(play, serving_tls(tmp_path)) as port:
        leg = leg_to(port, host="127.0.0.1", tls=trusting())
        assert await send(leg) == NotSent(Unsent.NO_CONNECTION)


async def test_a_handshake_that_never_ends_is_not_sent(double: Double) -> None:
    """The double speaks no TLS: it waits for a head, and the client for a server's hello."""
    leg = leg_to(double.port, tls=trusting())
    assert await send(leg, connect_timeout=0.1) == NotSent(Unsent.NO_CONNECTION)
    assert double.hits == []


async def test_a_bad_hold_is_not_sent_and_keeps_the_connection_for_the_next_call(
    double: Double,
) -> None:
    connections: list[int] = []
    double.default = noting(connections, ok())
    leg = leg_to(double.port)
    await answered(leg)

    ended = await leg.forward(outgoing(), lambda: False)

    assert ended == NotSent(Unsent.HOLD_BAD)
    assert len(double.hits) == 1
    await answered(leg)
    assert len(double.hits) == 2
    assert len(set(connections)) == 1


async def test_the_hold_is_asked_when_the_connection_has_been_made(tmp_path: Path) -> None:
    """Making a connection takes time: a hold that was good before may be bad then."""
    greeted, read, asked = threading.Event(), list[bytes](), list[bool]()

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        read.append(await reader.read())

    def may_write() -> bool:
        asked.append(greeted.is_set())
        return False

    serving = serving_tls(tmp_path)
    serving.sni_callback = lambda *_: greeted.set()
    async with listening(play, serving) as port:
        leg = leg_to(port, host="localhost", tls=trusting())
        assert await leg.forward(outgoing(), may_write) == NotSent(Unsent.HOLD_BAD)
        leg.close()
    assert asked == [True]
    assert not any(read)


@pytest.mark.parametrize("seen", [True, False], ids=["seen", "still in the kernel"])
async def test_a_peer_that_hangs_up_before_it_was_written_to_is_not_sent(
    double: Double, seen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So do balancers without a live server. The loop is so busy that the end has come before
    the connection is in our hands."""
    hung_up = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def hang_up() -> None:
        listener.accept()[0].close()
        hung_up.set()

    loop = asyncio.get_running_loop()
    connect = loop.create_connection

    async def connect_slowly(*arguments: Any, **settings: Any) -> Any:
        connection = await connect(*arguments, **settings)
        assert hung_up.wait(5)
        if seen:
            await looked_around()
        return connection

    monkeypatch.setattr(loop, "create_connection", connect_slowly)
    with listener:
        threading.Thread(target=hang_up, daemon=True).start()
        leg = leg_to(listener.getsockname()[1])
        assert await asyncio.wait_for(send(leg, timeout=60), 5) == NotSent(Unsent.NO_CONNECTION)


# --- answered ------------------------------------------------------------------------------

COMPLETE: dict[str, tuple[str, bytes, int, bytes]] = {
    "a length": ("POST", b"HTTP/1.1 201 C\r\nContent-Length: 5\r\n\r\nhello", 201, b"hello"),
    "a length of zero": ("POST", b"HTTP/1.1 200 O\r\nContent-Length: 0\r\n\r\n", 200, b""),
    "chunks": (
        "POST",
        b"HTTP/1.1 200 O\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n",
        200,
        b"hello",
    ),
    "chunks and trailers": (
        "POST",
        b"HTTP/1.1 200 O\r\nTransfer-Encoding: Chunked\r\nTrailer: X-Sum\r\n\r\n"
        b"5\r\nhello\r\n0\r\nX-Sum: 9\r\n\r\n",
        200,
        b"hello",
    ),
    "no content": ("DELETE", b"HTTP/1.1 204 N\r\n\r\n", 204, b""),
    "not modified with the length of what is not sent": (
        "GET",
        b"HTTP/1.1 304 N\r\nContent-Length: 99\r\n\r\n",
        304,
        b"",
    ),
    "the head of a body": ("HEAD", b"HTTP/1.1 200 O\r\nContent-Length: 99\r\n\r\n", 200, b""),
    "the head of chunks": (
        "HEAD",
        b"HTTP/1.1 200 O\r\nTransfer-Encoding: chunked\r\n\r\n",
        200,
        b"",
    ),
    "an older version": (
        "POST",
        b"HTTP/1.0 200 O\r\nContent-Length: 5\r\n\r\nhello",
        200,
        b"hello",
    ),
    "no reason phrase": ("POST", b"HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello", 200, b"hello"),
}


@pytest.mark.parametrize("name", COMPLETE)
async def test_a_whole_answer_is_passed_on_while_the_connection_stays_open(
    double: Double, name: str
) -> None:
    method, said, status, body = COMPLETE[name]
    double.script = [say(said)]
    ended = await answered(leg_to(double.port), method)
    assert (ended.status, ended.body) == (status, body)
    assert len(double.hits) == 1


@pytest.mark.parametrize("name", COMPLETE)
async def test_a_whole_answer_is_whole_however_it_is_cut_into_pieces(
    double: Double, name: str
) -> None:
    method, said, status, body = COMPLETE[name]
    double.script = [trickle(said, every=0.0005)]
    ended = await answered(leg_to(double.port), method)
    assert (ended.status, ended.body) == (status, body)


async def test_a_body_without_a_length_ends_with_the_connection(double: Double) -> None:
    double.script = [raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nhello")]
    ended = await answered(leg_to(double.port))
    assert ended.body == b"hello"
    assert ended.headers == ((b"Content-Type", b"text/plain"),)


@pytest.mark.parametrize(
    "interim",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 102 Processing\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nSet-Cookie: a=b\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 E\r\nLink: </a>\r\n\r\nHTTP/1.1 103 E\r\n\r\n",
    ],
    ids=["100", "102", "103", "several"],
)
@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "one after the other"])
async def test_interim_answers_are_no_answers(
    double: Double, interim: bytes, at_once: bool
) -> None:
    final = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Final: 1\r\n\r\nhello"
    double.script = [say(interim + final) if at_once else say(interim, final, every=0.01)]
    ended = await answered(leg_to(double.port))
    assert (ended.status, ended.body) == (200, b"hello")
    assert ended.headers == ((b"X-Final", b"1"),)


async def test_the_length_is_kept_only_where_there_is_no_body(double: Double) -> None:
    """Who has the body says its length anew; an answer to HEAD says what a GET would get."""
    double.script = [
        say(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        say(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"),
        say(b"HTTP/1.1 304 N\r\nContent-Length: 98\r\n\r\n"),
    ]
    leg = leg_to(double.port)
    assert (await answered(leg, "GET")).headers == ()
    assert (await answered(leg, "HEAD")).headers == ((b"Content-Length", b"99"),)
    assert (await answered(leg, "GET")).headers == ((b"Content-Length", b"98"),)


async def test_an_answer_that_comes_before_the_request_was_read_is_the_answer() -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno!")
        await writer.drain()
        await hung_up.wait()

    hung_up = asyncio.Event()
    async with listening(play) as port:
        leg = leg_to(port)
        ended = await answered(leg, body=LARGE)
        assert (ended.status, ended.body) == (413, b"no!")
        assert isinstance(await send(leg, timeout=0.2), Answer)  # and not on that connection
        hung_up.set()


# --- outcome unknown -----------------------------------------------------------------------

BROKEN: dict[str, bytes] = {
    "garbage": b"hello, world\r\n\r\n",
    "another request": b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "a length and chunks": (
        b"HTTP/1.1 200 O\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"5\r\nhello\r\n0\r\n\r\n"
    ),
    "chunks and a length": (
        b"HTTP/1.1 200 O\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"
        b"5\r\nhello\r\n0\r\n\r\n"
    ),
    "another coding": b"HTTP/1.1 200 O\r\nTransfer-Encoding: identity\r\n\r\nhello",
    "a coding within chunks": (
        b"HTTP/1.1 200 O\r\nTransfer-Encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    ),
    "a coding and chunks on two lines": (
        b"HTTP/1.1 200 O\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"5\r\nhello\r\n0\r\n\r\n"
    ),
    "two lengths": b"HTTP/1.1 200 O\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "a signed length": b"HTTP/1.1 200 O\r\nContent-Length: +5\r\n\r\nhello",
    "a length that is none": b"HTTP/1.1 200 O\r\nContent-Length: five\r\n\r\nhello",
    "a chunk without its end": (
        b"HTTP/1.1 200 O\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX0\r\n\r\n"
    ),
    "a chunk of a length that is none": (
        b"HTTP/1.1 200 O\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\nhello\r\n0\r\n\r\n"
    ),
    "a control character in a field": b"HTTP/1.1 200 O\r\nX: a\x00b\r\nContent-Length: 0\r\n\r\n",
    "a folded field": b"HTTP/1.1 200 O\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n",
    "another protocol": b"HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    "another protocol, unnamed": b"HTTP/1.1 101 S\r\n\r\n",
    "a status below all": b"HTTP/1.1 099 S\r\nContent-Length: 0\r\n\r\n",
    "a status above all": b"HTTP/1.1 600 S\r\nContent-Length: 0\r\n\r\n",
    "a status of four digits": b"HTTP/1.1 2000 S\r\nContent-Length: 0\r\n\r\n",
}

CUT: dict[str, bytes] = {
    "no byte": b"",
    "a cut head": b"HTTP/1.1 200 OK\r\nContent-Le",
    "an interim answer only": b"HTTP/1.1 100 Continue\r\n\r\n",
    "a cut body": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello",
    "cut within a chunk": b"HTTP/1.1 200 O\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello",
    "cut between chunks": b"HTTP/1.1 200 O\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    "cut in the last chunk": (
        b"HTTP/1.1 200 O\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"
    ),
    "cut in the trailers": (
        b"HTTP/1.1 200 O\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum"
    ),
}


async def sent_once_and_unknown(double: Double, script: Script, doubt: Doubt) -> None:
    """One hit, no answer, nothing resent; and the next call is not touched by it."""
    double.script = [script]
    leg = leg_to(double.port)
    assert await send(leg) == unknown(doubt)
    assert len(double.hits) == 1
    assert (await answered(leg)).status == 201
    assert len(double.hits) == 2


@pytest.mark.parametrize("name", BROKEN)
async def test_an_answer_that_is_no_answer_leaves_the_outcome_unknown(
    double: Double, name: str
) -> None:
    await sent_once_and_unknown(double, say(BROKEN[name]), Doubt.BROKEN_ANSWER)


@pytest.mark.parametrize("name", CUT)
async def test_an_answer_cut_off_by_a_close_leaves_the_outcome_unknown(
    double: Double, name: str
) -> None:
    await sent_once_and_unknown(double, raw(CUT[name]), Doubt.CONNECTION_LOST)


@pytest.mark.parametrize("name", CUT)
async def test_an_answer_cut_off_by_a_reset_leaves_the_outcome_unknown(
    double: Double, name: str
) -> None:
    await sent_once_and_unknown(double, say_then_reset(CUT[name]), Doubt.CONNECTION_LOST)


async def test_a_body_without_a_length_is_not_ended_by_a_reset(double: Double) -> None:
    whole = b"HTTP/1.1 200 OK\r\n\r\nhello"
    await sent_once_and_unknown(double, say_then_reset(whole), Doubt.CONNECTION_LOST)


@pytest.mark.parametrize("script", [do_drop(), read_drop(), do_cut(7)], ids=["do", "read", "cut"])
async def test_a_connection_that_is_dropped_leaves_the_outcome_unknown(
    double: Double, script: Script
) -> None:
    await sent_once_and_unknown(double, script, Doubt.CONNECTION_LOST)


# --- TLS -----------------------------------------------------------------------------------


async def test_a_call_goes_over_tls(tmp_path: Path) -> None:
    heads: list[bytes] = []
    connections: list[object] = []

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        while head := await reader.readuntil(b"\r\n\r\n"):
            assert await reader.readexactly(2) == b"{}"
            heads.append(head)
            writer.write(WHOLE)
            await writer.drain()

    async with listening(play, serving_tls(tmp_path)) as port:
        leg = leg_to(port, host="localhost", tls=trusting())
        assert (await answered(leg)).status == 201
        assert (await answered(leg)).status == 201
        assert (len(heads), len(connections)) == (2, 1)
        assert b"\r\nHost: localhost:%d\r\n" % port in heads[0]
        leg.close()


@pytest.mark.parametrize("clean", [True, False], ids=["closed", "cut"])
async def test_a_body_without_a_length_is_ended_by_a_close_of_tls_and_not_of_tcp(
    tmp_path: Path, clean: bool
) -> None:
    """RFC 9112 section 9.8: without the closing alert anybody may have cut the answer short."""

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(2)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nhello")
        await writer.drain()
        if not clean:
            await delivered(writer)
            writer.transport.abort()

    async with listening(play, serving_tls(tmp_path)) as port:
        ended = await send(leg_to(port, host="localhost", tls=trusting()))
    if clean:
        assert isinstance(ended, Answer)
        assert ended.body == b"hello"
    else:
        assert ended == unknown(Doubt.CONNECTION_LOST)


# --- timeouts ------------------------------------------------------------------------------


async def timed_out(double: Double, script: Script, **settings: Any) -> float:
    """Seconds by the loop's clock, on which timeouts run and which uvloop reads in whole
    milliseconds, after which the call was given up; one hit, and nothing resent."""
    double.script = [script]
    leg, clock = leg_to(double.port), asyncio.get_running_loop().time
    began = clock()
    assert await send(leg, **settings) == unknown(Doubt.TIMEOUT)
    seconds = clock() - began
    assert len(double.hits) == 1
    return seconds


async def test_no_answer_at_all_is_waited_for_until_the_timeout(double: Double) -> None:
    assert 0.15 <= await timed_out(double, nothing(), timeout=0.15) < 2


async def test_a_head_that_trickles_is_given_up_at_the_timeout(double: Double) -> None:
    endless = b"HTTP/1.1 200 OK\r\nX-Endless: " + b"x" * 2000
    assert await timed_out(double, trickle(endless, every=0.01), timeout=0.15) < 2


async def test_interim_answers_do_not_put_off_the_timeout(double: Double) -> None:
    interim = [b"HTTP/1.1 102 Processing\r\n\r\n"] * 400
    assert await timed_out(double, say(*interim, every=0.01), timeout=0.15) < 2


@pytest.mark.parametrize(
    "start",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nhello",
    ],
    ids=["length", "chunks", "close"],
)
async def test_a_body_that_stalls_is_given_up_at_the_timeout(double: Double, start: bytes) -> None:
    assert 0.15 <= await timed_out(double, say(start), timeout=0.15) < 2


async def test_a_body_that_comes_slowly_but_steadily_is_waited_for(double: Double) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n"
    double.script = [say(head, *[b"x"] * 20, every=0.04)]
    began = time.monotonic()
    ended = await answered(leg_to(double.port), timeout=0.4)
    assert ended.body == b"x" * 20
    assert time.monotonic() - began > 0.6


async def test_an_upstream_that_does_not_read_is_given_up_at_the_timeout() -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await given_up.wait()

    given_up = asyncio.Event()
    async with listening(play) as port:
        began = time.monotonic()
        ended = await send(leg_to(port), body=LARGE, timeout=0.2)
        given_up.set()
    assert ended == unknown(Doubt.TIMEOUT)
    assert time.monotonic() - began < 2


async def test_an_upstream_that_reads_slowly_but_steadily_is_waited_for() -> None:
    """The timeout runs from the last byte sent. What the kernel has taken in counts as sent, so
    the end of the body is read at once."""

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for _ in range(12):
            await reader.readexactly(len(LARGE) // 32)
            await asyncio.sleep(0.1)
        await reader.readexactly(len(LARGE) - 12 * (len(LARGE) // 32))
        writer.write(WHOLE)
        await writer.drain()

    async with listening(play) as port:
        began = time.monotonic()
        assert (await answered(leg_to(port), body=LARGE, timeout=0.8)).status == 201
        assert time.monotonic() - began > 1.2


# --- connections ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "behind",
    [
        b"junk",
        b"\r\n",
        b"HTTP/1.1 500 Not Yours\r\nX-Not-Yours: 1\r\nContent-Length: 9\r\n\r\nnot yours",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n",
    ],
    ids=["junk", "line end", "an answer", "an interim answer", "half an answer"],
)
@pytest.mark.parametrize("later", [False, True], ids=["at once", "a moment later"])
async def test_what_comes_behind_an_answer_reaches_nobody(
    double: Double, behind: bytes, later: bool
) -> None:
    connections: list[int] = []
    first = say(WHOLE, behind, every=0.02) if later else say(WHOLE + behind)
    double.script = [noting(connections, first)]
    double.default = noting(connections, ok(202))
    leg = leg_to(double.port)

    one = await answered(leg)
    if later:
        await asyncio.sleep(0.06)
    two = await answered(leg)

    assert (one.status, one.headers, one.body) == (201, (), b"ok")
    assert two.status == 202
    if behind != b"\r\n":  # an empty line may stand before an answer
        assert len(set(connections)) == 2


async def test_a_connection_is_used_again_within_its_time(double: Double) -> None:
    connections: list[int] = []
    double.default = noting(connections, ok())
    leg = leg_to(double.port, reuse_within=60)
    for _ in range(3):
        await answered(leg)
    assert len(set(connections)) == 1


@pytest.mark.parametrize("reuse_within", [0.0, 0.05])
async def test_a_connection_is_not_used_again_after_its_time(
    double: Double, reuse_within: float
) -> None:
    connections: list[int] = []
    double.default = noting(connections, ok())
    leg = leg_to(double.port, reuse_within=reuse_within)
    await answered(leg)
    await asyncio.sleep(2 * reuse_within)
    await answered(leg)
    assert len(set(connections)) == 2


@pytest.mark.parametrize(
    ("said", "used_again"),
    [
        (b"Keep-Alive: timeout=60", True),
        (b"Keep-Alive: max=5", True),
        (b"Keep-Alive: what=ever, timeout", True),
        (b"Keep-Alive: timeout=0", False),
        (b"keep-alive: max=5, TIMEOUT=0", False),
        (b"Connection: close", False),
    ],
)
async def test_a_connection_is_used_again_no_longer_than_the_upstream_says(
    double: Double, said: bytes, used_again: bool
) -> None:
    connections: list[int] = []
    answer = b"HTTP/1.1 201 C\r\nContent-Length: 2\r\n" + said + b"\r\n\r\nok"
    double.default = noting(connections, say(answer))
    leg = leg_to(double.port)
    await answered(leg)
    await answered(leg)
    assert (len(set(connections)) == 1) is used_again


@pytest.mark.parametrize("by_reset", [False, True], ids=["FIN", "RST"])
@pytest.mark.parametrize("seen", [True, False], ids=["seen", "still in the kernel"])
async def test_a_connection_that_the_peer_has_closed_is_not_written_to(
    double: Double, by_reset: bool, seen: bool
) -> None:
    closed = threading.Event()
    double.script = [then(ok(), close(closed, by_reset=by_reset))]
    leg = leg_to(double.port)
    await answered(leg)
    assert closed.wait(5)  # the loop stands still: it cannot have seen the end
    if seen:
        await looked_around()
    assert (await answered(leg)).status == 201
    assert len(double.hits) == 2


async def test_a_connection_that_the_peer_has_half_closed_gets_no_further_byte() -> None:
    """Written to, it would take the request and never answer."""
    read: list[bytes] = []
    half_closed, ended = asyncio.Event(), asyncio.Event()

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        read.append(await reader.readuntil(b"\r\n\r\n{}"))
        writer.write(WHOLE)
        writer.write_eof()
        half_closed.set()
        read.append(await reader.read())
        ended.set()

    async with listening(play) as port:
        leg = leg_to(port)
        await answered(leg)
        await half_closed.wait()
        await answered(leg)
        await asyncio.wait_for(ended.wait(), 5)
    assert read[1] == b""


async def test_concurrent_calls_each_get_their_own_answer(double: Double) -> None:
    """All fifty are under way before the first is answered."""
    count = 50

    async def echo(hit: Hit, writer: asyncio.StreamWriter) -> None:
        while len(double.hits) < count:
            await asyncio.sleep(0.002)
        await ok(200, hit.target.encode() + b" " + hit.body, [])(hit, writer)

    double.default = echo
    leg = leg_to(double.port)
    calls = [answered(leg, target=b"/%d" % n, body=b"body %d" % n) for n in range(count)]
    ended = await asyncio.gather(*calls)
    assert [answer.body for answer in ended] == [b"/%d body %d" % (n, n) for n in range(count)]
    assert len(double.hits) == count


async def test_a_closed_leg_has_let_go_of_its_idle_connections() -> None:
    hung_up = asyncio.Event()

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n{}")
        writer.write(WHOLE)
        with suppress(ConnectionError):
            assert await reader.read() == b""
        hung_up.set()

    async with listening(play) as port:
        leg = leg_to(port)
        await answered(leg)
        leg.close()
        await asyncio.wait_for(hung_up.wait(), 5)


# --- heads ---------------------------------------------------------------------------------


def fields(hit: Hit) -> list[tuple[str, str]]:
    """The fields of a request, but for those that every request has."""
    own = {"host", "via", "content-length"}
    return [(name, value) for name, value in hit.headers if name.lower() not in own]


async def test_nothing_is_invented(double: Double) -> None:
    await answered(leg_to(double.port))
    (hit,) = double.hits
    assert hit.headers == [
        ("Host", f"127.0.0.1:{double.port}"),
        ("Via", "1.1 gate"),
        ("Content-Length", "2"),
    ]


async def test_a_request_without_a_body_says_a_length_only_where_one_is_expected(
    double: Double,
) -> None:
    leg = leg_to(double.port)
    for method in ("GET", "DELETE", "OPTIONS", "POST", "PUT", "PATCH"):
        await answered(leg, method, body=b"")
    lengths = {hit.method: hit.header("content-length") for hit in double.hits}
    assert lengths == {
        "GET": None,
        "DELETE": None,
        "OPTIONS": None,
        "POST": "0",
        "PUT": "0",
        "PATCH": "0",
    }


async def test_fields_of_one_hop_are_not_sent_on(double: Double) -> None:
    headers: Headers = (
        (b"connection", b"close, X-Of-This-Hop"),
        (b"Connection", b"x-and-this"),
        (b"x-of-this-hop", b"1"),
        (b"X-And-This", b"1"),
        (b"keep-alive", b"timeout=5"),
        (b"proxy-connection", b"keep-alive"),
        (b"proxy-authorization", b"Basic eDp5"),
        (b"te", b"gzip"),
        (b"trailer", b"x-sum"),
        (b"transfer-encoding", b"chunked"),
        (b"upgrade", b"h2c"),
        (b"expect", b"100-continue"),
        (b"host", b"gateway.example"),
        (b"content-length", b"999"),
        (b"x-end-to-end", b"1"),
    )
    await answered(leg_to(double.port), headers=headers)
    (hit,) = double.hits
    assert fields(hit) == [("x-end-to-end", "1")]
    assert hit.header("content-length") == "2"
    assert hit.header("host") == f"127.0.0.1:{double.port}"
    assert hit.body == b"{}"


async def test_fields_of_one_hop_are_not_passed_back(double: Double) -> None:
    double.script = [
        say(
            b"HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Of-This-Hop\r\nX-Of-This-Hop: 1\r\n"
            b"Keep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\nTrailer: X-Sum\r\n"
            b"Upgrade: h2c\r\nTransfer-Encoding: chunked\r\nX-End-To-End: 1\r\n\r\n"
            b"0\r\nX-Sum: 1\r\n\r\n"
        )
    ]
    ended = await answered(leg_to(double.port))
    assert ended.headers == ((b"X-End-To-End", b"1"),)


async def test_what_the_upstream_says_in_our_name_is_dropped(double: Double) -> None:
    said = [
        ("Fencegate-Decision", "replayed"),
        ("fencegate-high-water", "7"),
        ("Idempotency-Replayed", "true"),
        ("Idempotent-Replayed", "true"),
        ("X-Other", "kept"),
    ]
    double.script = [ok(200, b"", said)]
    assert (await answered(leg_to(double.port))).headers == ((b"X-Other", b"kept"),)


async def test_repeated_fields_keep_count_and_order_both_ways(double: Double) -> None:
    lines = [("X-D", "1"), ("X-E", "2"), ("x-d", "3"), ("X-D", "1"), ("X-E", "")]
    double.script = [ok(200, b"", lines)]
    headers = tuple((name.encode(), value.encode()) for name, value in lines)
    ended = await answered(leg_to(double.port), headers=headers)
    (hit,) = double.hits
    assert fields(hit) == lines
    assert ended.headers == headers


async def test_three_cookies_stay_three(double: Double) -> None:
    cookies = [
        ("Set-Cookie", "a=1; Expires=Wed, 09 Jun 2027 10:18:14 GMT"),
        ("Set-Cookie", "b=2"),
        ("Set-Cookie", "a=1; Expires=Wed, 09 Jun 2027 10:18:14 GMT"),
    ]
    double.script = [ok(200, b"", cookies)]
    ended = await answered(leg_to(double.port))
    assert [(n.decode(), v.decode()) for n, v in ended.headers] == cookies


async def test_no_cookie_is_remembered_for_the_next_call(double: Double) -> None:
    double.script = [ok(200, b"", [("Set-Cookie", "session=first")])]
    leg = leg_to(double.port)
    await answered(leg)
    await answered(leg)
    assert double.hits[1].header("cookie") is None


async def test_a_redirect_is_an_answer_and_not_followed(double: Double) -> None:
    location = ("Location", f"{double.url}/elsewhere")
    double.script = [ok(307, b"", [location])]
    ended = await answered(leg_to(double.port))
    assert ended.status == 307
    assert len(double.hits) == 1


@pytest.mark.parametrize(
    "target",
    [
        b"/a%2Fb",
        b"/a%252Fb",
        b"/a%3Fb",
        b"/%41",
        b"/%e2%82%ac",
        b"//b",
        b"/?",
        b"/a/./b/../c",
        b"/x?a=1&a=2&b=%20+&c",
        b"/x?",
        b"/a;v=1",
    ],
)
async def test_the_target_is_sent_byte_for_byte(double: Double, target: bytes) -> None:
    await answered(leg_to(double.port), target=target)
    assert double.hits[0].raw_head.startswith(b"POST " + target + b" HTTP/1.1\r\n")


async def test_a_coded_body_is_passed_on_as_it_came(double: Double) -> None:
    body = gzip.compress(b'{"hello": "world"}')
    said = [("Content-Encoding", "gzip"), ("ETag", '"1"'), ("Content-Type", "application/json")]
    double.script = [ok(200, body, said)]
    ended = await answered(leg_to(double.port))
    assert ended.body == body
    assert [(n.decode(), v.decode()) for n, v in ended.headers] == said


async def test_a_binary_request_body_is_sent_as_it_came(double: Double) -> None:
    body = bytes(range(256)) * 300
    await answered(leg_to(double.port), body=body)
    assert double.hits[0].body == body


async def test_bytes_beyond_ascii_in_fields_are_kept_both_ways(double: Double) -> None:
    value = bytes(range(0xA1, 0x100))
    double.script = [say(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Name: " + value + b"\r\n\r\n")]
    ended = await answered(leg_to(double.port), headers=((b"x-name", value),))
    assert b"\r\nx-name: " + value + b"\r\n" in double.hits[0].raw_head
    assert ended.headers == ((b"X-Name", value),)


async def test_the_gateway_adds_itself_to_via_once(double: Double) -> None:
    await answered(leg_to(double.port), headers=((b"via", b"1.0 before"),))
    vias = [value for name, value in double.hits[0].headers if name.lower() == "via"]
    assert vias == ["1.0 before", "1.1 gate"]


async def test_injected_fields_stand_in_the_place_of_the_clients(double: Double) -> None:
    inject: Headers = ((b"Authorization", b"Bearer ours"), (b"X-Sent-By", b"gate"))
    headers: Headers = (
        (b"authorization", b"Bearer theirs"),
        (b"AUTHORIZATION", b"Bearer theirs too"),
        (b"x-other", b"1"),
    )
    await answered(leg_to(double.port, inject=inject), headers=headers)
    assert fields(double.hits[0]) == [
        ("x-other", "1"),
        ("Authorization", "Bearer ours"),
        ("X-Sent-By", "gate"),
    ]


async def test_fence_and_key_are_passed_on_as_they_came(double: Double) -> None:
    headers: Headers = ((b"x-execution-fence", b"42"), (b"idempotency-key", b'"k 1"'))
    await answered(leg_to(double.port), headers=headers)
    assert fields(double.hits[0]) == [("x-execution-fence", "42"), ("idempotency-key", '"k 1"')]


async def test_a_token_that_is_shown_to_the_gateway_goes_no_further(double: Double) -> None:
    await answered(leg_to(double.port), headers=((b"fencegate-token", b"s3cret"),))
    assert fields(double.hits[0]) == []


async def test_nothing_of_a_call_is_shown_by_its_repr() -> None:
    secret = outgoing(headers=((b"authorization", b"Bearer s3cret"),), body=b"s3cret")
    settings = LegSettings("h", 1, None, ((b"Authorization", b"s3cret"),), b"v", 1.0)
    assert "s3cret" not in repr(secret) + repr(settings)
