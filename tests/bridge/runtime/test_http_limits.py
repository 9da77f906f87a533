"""Limits of HTTP connections, tested over real sockets with short time limits."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

from bridge.logs import configure
from bridge.runtime.http_connections import RESERVED, STARTS_PER_TURN, HttpLimits
from bridge.runtime.http_protocol import LINGER_BYTES, MAX_HEADER_COUNT
from bridge.runtime.web_server import WebServer
from config.quantities import Address
from tests.eventually import eventually_async

pytestmark = pytest.mark.anyio

QUICK = HttpLimits(connections=8, per_source=6, head=0.2, body=0.2, idle=0.2, write=0.3)
PATIENT = replace(QUICK, head=60.0, body=60.0, idle=60.0, write=60.0)
GET = b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /%s HTTP/1.1\r\nHost: x\r\n"
WITHIN = 120
LARGE = 6 * 2**20

Send = Callable[[Any], Awaitable[None]]


class Application:
    """
    Paths with a special behaviour.

    `/hold` answers when released; `/read` reads the body; `/steps` takes a step for each piece of
    it; `/large` answers much.
    """

    def __init__(self) -> None:
        self.released = asyncio.Event()
        self.steps = asyncio.Semaphore(0)
        self.seen: list[Any] = []
        self.disconnected = 0

    async def __call__(
        self, scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Send
    ) -> None:
        self.seen.append(scope)
        if scope["path"] == "/hold":
            await self.released.wait()
        if scope["path"] in {"/read", "/steps"}:
            more = True
            while more:
                if scope["path"] == "/steps":
                    await self.steps.acquire()
                message = await receive()
                if message["type"] == "http.disconnect":
                    self.disconnected += 1
                    return
                more = message["more_body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        body = bytes(32 * 2**20) if scope["path"] == "/large" else b"done"
        await send({"type": "http.response.body", "body": body})


class Served:
    """A server, its application, and why it closed connections."""

    def __init__(self, limits: HttpLimits) -> None:
        self.application = Application()
        self.closed: Counter[str] = Counter()
        self.writers: list[asyncio.StreamWriter] = []
        self.server = WebServer(
            self.application,
            Address("127.0.0.1:0"),
            limits,
            lambda reason: self.closed.update([reason]),
        )

    async def connect(
        self, sent: bytes = b"", source: str = "127.0.0.1"
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection from a loopback address, and send something."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.server.port, local_addr=(source, 0)
        )
        self.writers.append(writer)
        writer.write(sent)
        return reader, writer

    async def status(self, sent: bytes, source: str = "127.0.0.1") -> int:
        """Send a request; return the status of its response."""
        reader, _ = await self.connect(sent, source)
        return await status(reader)


@asynccontextmanager
async def served(limits: HttpLimits) -> AsyncIterator[Served]:
    """Serve for the time of a test."""
    found = Served(limits)
    await found.server.start()
    try:
        yield found
    finally:
        found.application.released.set()
        for writer in found.writers:
            writer.transport.abort()
        for writer in found.writers:
            with suppress(ConnectionError):
                await writer.wait_closed()
        await found.server.stop()


async def status(reader: asyncio.StreamReader) -> int:
    """Read a response's head; 0 if the connection ended before it."""
    async with asyncio.timeout(WITHIN):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionResetError):
            return 0
    return int(head.split(b" ", 2)[1])


async def ended(reader: asyncio.StreamReader) -> bytes:
    """Read until the server closes the connection."""
    async with asyncio.timeout(WITHIN):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"", "idle"),
        (b"G", "slow_head"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX-A: b", "slow_head"),
        (POST % b"read" + b"Content-Length: 9\r\n\r\nhalf", "slow_body"),
        (POST % b"read" + b"Transfer-Encoding: chunked\r\n\r\n", "slow_body"),
        (POST % b"read" + b"Transfer-Encoding: chunked\r\n\r\n9\r\nhalf", "slow_body"),
        (POST % b"read" + b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\nX: y", "slow_body"),
        (GET % b"", "idle"),
        (GET % b"" + b"GET / HT", "slow_head"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", ""),
    ],
)
async def test_what_is_unfinished_is_closed(sent: bytes, reason: str) -> None:
    """A request that is not completed ends its connection, wherever it stopped."""
    async with served(QUICK) as to:
        reader, _ = await to.connect(sent)
        answer = await ended(reader)
        assert bool(answer) is bool(sent)
        if reason:
            await eventually_async(lambda: to.closed[reason] == 1)
        if reason.startswith("slow"):
            assert b"HTTP/1.1 408 " in answer


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\nX-A: ", b"a"),
        (POST % b"read" + b"Content-Length: 999999\r\n\r\n", b"a"),
        (POST % b"read" + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n"),
        (b"", b"\r\n"),
    ],
)
async def test_a_byte_at_a_time_wins_no_time(head: bytes, piece: bytes) -> None:
    """Slowloris: each byte comes before the limit, and the request is closed all the same."""
    async with served(QUICK) as to:
        reader, writer = await to.connect(head)

        async def drip() -> None:
            while not writer.is_closing():
                writer.write(piece)
                await asyncio.sleep(0.02)

        dripping = asyncio.ensure_future(drip())
        await ended(reader)
        dripping.cancel()
        await eventually_async(lambda: bool(to.closed))


async def test_a_body_at_a_fair_rate_is_read_whole() -> None:
    """An upload may take longer than `body`, as long as it makes progress."""
    async with served(replace(QUICK, body_rate=1)) as to:
        reader, writer = await to.connect(POST % b"read" + b"Content-Length: 40\r\n\r\n")
        for _ in range(40):
            writer.write(b"x")
            await asyncio.sleep(0.02)
        assert await status(reader) == 200


async def test_a_large_body_may_be_read_slowly() -> None:
    """Time limits are checked between the pieces; the body still counts as a body."""
    async with served(replace(PATIENT, head=0.2)) as to:
        reader, _ = await to.connect(POST % b"steps" + b"Content-Length: %d\r\n\r\n" % LARGE)
        await eventually_async(lambda: to.application.seen)
        to.writers[0].write(bytes(LARGE))
        answer = asyncio.ensure_future(status(reader))
        while not answer.done():
            await ended((await to.connect())[0])  # the time limits have been checked
            to.application.steps.release()
        assert answer.result() == 200


async def test_a_client_that_does_not_read_is_cut_off() -> None:
    """A response that nobody takes holds no memory for long."""
    async with served(QUICK) as to:
        _, writer = await to.connect(GET % b"large")
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # is one that reads
        await eventually_async(lambda: to.closed["unread_response"] == 1)


async def test_closed_connections_are_logged_by_reason(capfd: pytest.CaptureFixture[str]) -> None:
    """One line for each reason, with its count; none for each response to a client that is gone."""
    configure()
    async with served(QUICK) as to:
        await asyncio.gather(*[ended((await to.connect())[0]) for _ in range(3)])
        _, writer = await to.connect((GET % b"hold") + (GET % b"large") * 15)
        await eventually_async(lambda: to.application.seen)
        writer.transport.abort()
        to.application.released.set()
        await ended((await to.connect())[0])
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert "asyncio" not in [each.get("logger") for each in lines]
    assert [(each["event"], each["reason"]) for each in lines] == [
        ("http connections closed", "idle")
    ]
    assert 1 <= lines[0]["count"] <= 3


async def test_half_open_connections_keep_nobody_out() -> None:
    """Many addresses open more than there may be: the oldest of them give way."""
    async with served(PATIENT) as to:
        for at in range(3 * PATIENT.connections):
            await to.connect(b"GET / HTTP/1.1\r\n", f"127.0.1.{1 + at}")
        assert await to.status(GET % b"", "127.0.0.2") == 200
        assert to.closed["made_room"] >= 2 * PATIENT.connections


@pytest.mark.parametrize("length", [b"9", b"99999999"])
async def test_unfinished_bodies_keep_nobody_out(length: bytes) -> None:
    """Neither does whoever begins a body and falls silent."""
    half = POST % b"read" + b"Content-Length: " + length + b"\r\n\r\nhalf"
    async with served(PATIENT) as to:
        for at in range(3 * PATIENT.connections):
            await to.connect(half, f"127.0.1.{1 + at}")
        assert await to.status(GET % b"", "127.0.0.2") == 200


async def test_unfinished_bodies_do_not_close_a_connection_without_a_request() -> None:
    """A connection of a flood is closed for the next one; a probe keeps its own."""
    async with served(PATIENT) as to:
        half = POST % b"read" + b"Content-Length: 9\r\n\r\nhalf"
        for source in ("127.0.0.2", "127.0.0.3"):
            for _ in range(4):
                await to.connect(half, source)
        await eventually_async(lambda: len(to.application.seen) == 8)
        reader, writer = await to.connect()
        await to.connect(half, "127.0.0.4")
        await eventually_async(lambda: len(to.application.seen) == 9)
        await to.connect(half, "127.0.0.4")
        await eventually_async(lambda: len(to.application.seen) == 10)
        writer.write(GET % b"readyz")
        assert await status(reader) == 200


async def test_one_address_has_its_own_limit() -> None:
    """What one address holds beyond its limit is closed; another one's connection stays."""
    async with served(replace(PATIENT, connections=100)) as to:
        other, other_writer = await to.connect(source="127.0.0.2")
        held = [await to.connect() for _ in range(4 * PATIENT.per_source)]
        await eventually_async(lambda: to.closed["made_room"] == 3 * PATIENT.per_source)
        assert await ended(held[0][0]) == b""
        other_writer.write(GET % b"")
        assert await status(other) == 200


async def test_a_proxy_has_no_limit_of_its_own() -> None:
    """A trusted proxy's connections are those of many people."""
    async with served(replace(PATIENT, connections=100, proxies=("127.0.0.0/8",))) as to:
        held = [await to.connect(GET % b"hold") for _ in range(2 * PATIENT.per_source)]
        await eventually_async(lambda: len(to.application.seen) == len(held))
        to.application.released.set()
        assert [await status(reader) for reader, _ in held] == [200] * len(held)


async def test_probes_are_answered_while_all_connections_work() -> None:
    """Where all are busy, others are told to come again, and health and metrics are answered."""
    async with served(PATIENT) as to:
        held = [
            await to.connect(GET % b"hold", f"127.0.1.{1 + at}")
            for at in range(PATIENT.connections)
        ]
        await eventually_async(lambda: len(to.application.seen) == len(held))
        for at in range(2 * RESERVED):
            await to.connect(source=f"127.0.2.{1 + at}")
        assert await to.status(GET % b"readyz", "127.0.0.2") == 200
        assert await to.status(GET % b"metrics", "127.0.0.2") == 200
        assert await to.status(GET % b"worklist", "127.0.0.2") == 503
        to.application.released.set()
        assert [await status(reader) for reader, _ in held] == [200] * len(held)


@pytest.mark.parametrize("framing", [b"Content-Length: 20971520", b"Transfer-Encoding: chunked"])
async def test_a_body_that_nobody_wants_is_not_drained(framing: bytes) -> None:
    """The response comes before the body, says `close`, and the connection ends."""
    async with served(PATIENT) as to:
        reader, _ = await to.connect(POST % b"refuse" + framing + b"\r\n\r\n")
        answer = await ended(reader)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"connection: close" in answer


async def test_an_endless_body_that_nobody_wants_is_cut_off() -> None:
    """Who goes on sending after the response is reset."""
    async with served(PATIENT) as to:
        reader, writer = await to.connect(POST % b"refuse" + b"Content-Length: 99999999999\r\n\r\n")
        assert await status(reader) == 200
        with suppress(ConnectionError):
            async with asyncio.timeout(WITHIN):
                while True:
                    writer.write(bytes(LINGER_BYTES))
                    await writer.drain()


_CHUNKED = POST % b"read" + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        b"GET http://evil/ HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET https://x:1/ HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET x HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n",
        POST % b"read" + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        POST % b"read" + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
        POST % b"read" + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        POST % b"read" + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        POST % b"read" + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\na",
        POST % b"read" + b"Content-Length: 1, 1\r\n\r\na",
        POST % b"read" + b"Content-Length: +1\r\n\r\na",
        POST % b"read" + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
        POST % b"read" + b"Transfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        b"POST /read HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX-A: b\r\n c\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\nX-A: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX-A: b\rc\r\n\r\n",
        _CHUNKED + b"-1\r\na\r\n0\r\n\r\n",
        _CHUNKED + b"1\na\r\n0\r\n\r\n",
    ],
)
async def test_what_two_parsers_could_read_differently_is_refused(sent: bytes) -> None:
    """Request smuggling: an ambiguous request reaches no application, nor does what follows it."""
    async with served(PATIENT) as to:
        reader, _ = await to.connect(sent + GET % b"smuggled")
        answer = await ended(reader)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "malformed_http"
        assert "/smuggled" not in [each["path"] for each in to.application.seen]


@pytest.mark.parametrize("endless", [b"1;", b"1;a=", b"0\r\nX-A: "])
async def test_chunk_extensions_and_trailers_are_bounded(endless: bytes) -> None:
    """They bring no body, and end the request."""
    async with served(PATIENT) as to:
        reader, writer = await to.connect(_CHUNKED + endless)
        writer.write(b"a" * 2**20)
        assert await status(reader) in {0, 400}
        assert b"".join(each["query_string"] for each in to.application.seen) == b""


async def test_tiny_chunks_are_bounded() -> None:
    """Each chunk costs the time of many bytes; a chunk for each line of a text is accepted."""
    async with served(PATIENT) as to:
        assert await to.status(_CHUNKED + b"1\r\na\r\n" * 10_000 + b"0\r\n\r\n") in {0, 400}
        lines = (b"28\r\n" + b"a" * 40 + b"\r\n") * 10_000
        assert await to.status(_CHUNKED + lines + b"0\r\n\r\n") == 200


async def test_trailers_are_no_headers() -> None:
    """A trailer does not become a header of the request that the application handles."""
    async with served(PATIENT) as to:
        body = b"1\r\na\r\n0\r\nX-Forwarded-For: 10.0.0.1\r\n\r\n"
        assert await to.status(_CHUNKED + body) == 200
        assert [name for name, _ in to.application.seen[0]["headers"]] == [
            b"host",
            b"transfer-encoding",
        ]


async def test_headers_are_bounded_in_number() -> None:
    """Small ones too."""
    async with served(PATIENT) as to:
        many = b"".join(b"X-%d: y\r\n" % at for at in range(MAX_HEADER_COUNT))
        assert await to.status(b"GET / HTTP/1.1\r\nHost: x\r\n" + many + b"\r\n") == 431


async def test_pipelined_requests_are_bounded_and_answered_in_order() -> None:
    """A few wait their turn; a bad one is refused after those before it."""
    async with served(PATIENT) as to:
        reader, _ = await to.connect(GET % b"hold" + GET % b"b" + b"GET \r\n\r\n")
        await eventually_async(lambda: len(to.application.seen) == 1)
        to.application.released.set()
        answer = await ended(reader)
    assert [line.split(b" ")[1] for line in answer.splitlines() if b"HTTP/1.1 " in line] == [
        b"200",
        b"200",
        b"400",
    ]
    async with served(PATIENT) as to:
        reader, _ = await to.connect(GET % b"hold" + GET % b"b" * 1000)
        await eventually_async(lambda: len(to.application.seen) == 1)
        to.application.released.set()
        assert (await ended(reader)).count(b"HTTP/1.1 ") < 100


@pytest.mark.parametrize("protocol", [b"h2c", b"websocket", b"TLS/1.0"])
async def test_no_other_protocol_is_spoken(protocol: bytes) -> None:
    """The request is answered as HTTP/1.1, and what follows is not read."""
    upgrade = (
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: " + protocol + b"\r\n\r\n"
    )
    async with served(PATIENT) as to:
        reader, _ = await to.connect(upgrade + GET % b"smuggled")
        answer = await ended(reader)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert [each["path"] for each in to.application.seen] == ["/"]


async def test_requests_of_one_address_do_not_hold_up_probes_and_others() -> None:
    """Few begin in one turn of the loop; another address's request overtakes those that wait."""
    limits = replace(PATIENT, connections=300, per_source=200)
    async with served(limits) as to:
        crowd = [await to.connect() for _ in range(150)]
        other, one = await to.connect(source="127.0.0.2")
        probe, probing = await to.connect(source="127.0.0.3")
        for _, writer in crowd:
            writer.write(GET % b"many")
        one.write(GET % b"other")
        probing.write(GET % b"readyz")
        assert (await status(other), await status(probe)) == (200, 200)
        assert [await status(reader) for reader, _ in crowd] == [200] * len(crowd)
        paths = [each["path"] for each in to.application.seen]
    assert paths.index("/readyz") < 3 * STARTS_PER_TURN
    assert paths.index("/other") < 5 * STARTS_PER_TURN
