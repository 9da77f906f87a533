"""Limits of HTTP connections, tested over real sockets with short time limits."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from bridge.logs import ALLOWED_FIELDS
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
    """`/hold` waits for a release, `/read` and `/steps` read the body, `/large` sends much."""

    def __init__(self) -> None:
        self.released = asyncio.Event()
        self.steps = asyncio.Semaphore(0)
        self.scopes: list[Any] = []
        self.disconnected = 0

    async def __call__(
        self, scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Send
    ) -> None:
        self.scopes.append(scope)
        if scope["path"] in {"/hold", "/empty"}:
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
        if scope["path"] == "/empty":
            headers = [(b"content-length", b"0")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body"})
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        body = bytes(32 * 2**20) if scope["path"] == "/large" else b"done"
        await send({"type": "http.response.body", "body": body})


class Served:
    """A server, its application, and the reasons of closed connections."""

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
        """Open a connection from a loopback address, and send bytes."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.server.port, local_addr=(source, 0)
        )
        self.writers.append(writer)
        writer.write(sent)
        return reader, writer

    async def status(self, sent: bytes, source: str = "127.0.0.1") -> int:
        """Send a request, and return the status of its response."""
        reader, _ = await self.connect(sent, source)
        return await status(reader)


@asynccontextmanager
async def served(limits: HttpLimits) -> AsyncIterator[Served]:
    """Run a server."""
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
    """Read the head of a response, and return the status; 0 if the connection ended."""
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
async def test_unfinished_requests_are_closed(sent: bytes, reason: str) -> None:
    """An unfinished request is closed at its time limit, wherever it stopped."""
    async with served(QUICK) as to:
        reader, _ = await to.connect(sent)
        response = await ended(reader)
        assert bool(response) is bool(sent)
        if reason:
            await eventually_async(lambda: to.closed[reason] == 1)
        if reason.startswith("slow"):
            assert b"HTTP/1.1 408 " in response


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\nX-A: ", b"a"),
        (POST % b"read" + b"Content-Length: 999999\r\n\r\n", b"a"),
        (POST % b"read" + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n"),
        (b"", b"\r\n"),
    ],
)
async def test_slowloris(head: bytes, piece: bytes) -> None:
    """Slowloris: single bytes do not extend the time limit."""
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


async def test_an_upload_with_progress_is_read() -> None:
    """An upload that makes progress may take longer than `body`."""
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
        await eventually_async(lambda: to.application.scopes)
        to.writers[0].write(bytes(LARGE))
        response = asyncio.ensure_future(status(reader))
        while not response.done():
            await ended((await to.connect())[0])  # the time limits have been checked
            to.application.steps.release()
        assert response.result() == 200


async def test_a_client_that_does_not_read_is_cut_off() -> None:
    """The server closes a connection that does not read its response, to release the memory."""
    async with served(QUICK) as to:
        _, writer = await to.connect(GET % b"large")
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # is one that reads
        await eventually_async(lambda: to.closed["unread_response"] == 1)


async def test_closed_connections_are_logged_by_reason() -> None:
    """Each reason has one line with its count."""
    with capture_logs() as lines:
        async with served(QUICK) as to:
            await asyncio.gather(*[ended((await to.connect())[0]) for _ in range(3)])
    assert [(each["event"], each["reason"]) for each in lines] == [
        ("http connections closed", "idle")
    ]
    assert 1 <= lines[0]["count"] <= 3
    assert lines[0].keys() - ALLOWED_FIELDS == {"log_level"}


async def test_a_client_that_is_gone_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """A client closes its connection before the response to a body that is not read."""
    async with served(PATIENT) as to:
        head = POST % b"empty" + b"Content-Length: %d\r\n\r\n" % LARGE
        _, writer = await to.connect(head + bytes(256 * 2**10))
        await eventually_async(lambda: to.application.scopes)
        await writer.drain()
        writer.transport.abort()
        await asyncio.sleep(0)  # the socket is closed in the next iteration of the event loop
        to.application.released.set()
        assert await to.status(GET % b"") == 200
    assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == []


async def test_half_open_connections() -> None:
    """Beyond the limit the oldest unfinished connections are closed for new addresses."""
    async with served(PATIENT) as to:
        for at in range(3 * PATIENT.connections):
            await to.connect(b"GET / HTTP/1.1\r\n", f"127.0.1.{1 + at}")
        assert await to.status(GET % b"", "127.0.0.2") == 200
        assert to.closed["made_room"] >= 2 * PATIENT.connections


@pytest.mark.parametrize("length", [b"9", b"99999999"])
async def test_unfinished_bodies(length: bytes) -> None:
    """Connections with an unfinished body are closed for new addresses."""
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
        await eventually_async(lambda: len(to.application.scopes) == 8)
        reader, writer = await to.connect()
        await to.connect(half, "127.0.0.4")
        await eventually_async(lambda: len(to.application.scopes) == 9)
        await to.connect(half, "127.0.0.4")
        await eventually_async(lambda: len(to.application.scopes) == 10)
        writer.write(GET % b"readyz")
        assert await status(reader) == 200


async def test_one_address_has_its_own_limit() -> None:
    """Connections of one address beyond its limit are closed. Those of others stay."""
    async with served(replace(PATIENT, connections=100)) as to:
        other, other_writer = await to.connect(source="127.0.0.2")
        held = [await to.connect() for _ in range(4 * PATIENT.per_source)]
        await eventually_async(lambda: to.closed["made_room"] == 3 * PATIENT.per_source)
        assert await ended(held[0][0]) == b""
        other_writer.write(GET % b"")
        assert await status(other) == 200


async def test_a_proxy_has_no_limit_of_its_own() -> None:
    """The limit per address does not apply to a trusted proxy."""
    async with served(replace(PATIENT, connections=100, proxies=("127.0.0.0/8",))) as to:
        held = [await to.connect(GET % b"hold") for _ in range(2 * PATIENT.per_source)]
        await eventually_async(lambda: len(to.application.scopes) == len(held))
        to.application.released.set()
        assert [await status(reader) for reader, _ in held] == [200] * len(held)


async def test_probes_are_answered_while_all_connections_work() -> None:
    """While all connections are busy, others get 503, but health and metrics respond."""
    async with served(PATIENT) as to:
        held = [
            await to.connect(GET % b"hold", f"127.0.1.{1 + at}")
            for at in range(PATIENT.connections)
        ]
        await eventually_async(lambda: len(to.application.scopes) == len(held))
        for at in range(2 * RESERVED):
            await to.connect(source=f"127.0.2.{1 + at}")
        assert await to.status(GET % b"readyz", "127.0.0.2") == 200
        assert await to.status(GET % b"metrics", "127.0.0.2") == 200
        assert await to.status(GET % b"worklist", "127.0.0.2") == 503
        to.application.released.set()
        assert [await status(reader) for reader, _ in held] == [200] * len(held)


@pytest.mark.parametrize("framing", [b"Content-Length: 20971520", b"Transfer-Encoding: chunked"])
async def test_an_unread_body_is_not_drained(framing: bytes) -> None:
    """The response precedes the body and says `close`, and the connection ends."""
    async with served(PATIENT) as to:
        reader, _ = await to.connect(POST % b"refuse" + framing + b"\r\n\r\n")
        response = await ended(reader)
        assert response.startswith(b"HTTP/1.1 200 ")
        assert b"connection: close" in response


async def test_an_endless_unread_body_is_reset() -> None:
    """A client that keeps sending after the response is reset."""
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
async def test_ambiguous_requests_are_refused(sent: bytes) -> None:
    """Request smuggling: an ambiguous request and those after it do not reach the application."""
    async with served(PATIENT) as to:
        reader, _ = await to.connect(sent + GET % b"smuggled")
        response = await ended(reader)
        assert response.startswith(b"HTTP/1.1 400 ")
        assert json.loads(response.partition(b"\r\n\r\n")[2])["code"] == "malformed_http"
        assert "/smuggled" not in [each["path"] for each in to.application.scopes]


@pytest.mark.parametrize("endless", [b"1;", b"1;a=", b"0\r\nX-A: "])
async def test_chunk_extensions_and_trailers_are_bounded(endless: bytes) -> None:
    """Too many chunk extensions or trailers end the request."""
    async with served(PATIENT) as to:
        reader, writer = await to.connect(_CHUNKED + endless)
        writer.write(b"a" * 2**20)
        assert await status(reader) in {0, 400}
        assert b"".join(each["query_string"] for each in to.application.scopes) == b""


async def test_tiny_chunks_are_bounded() -> None:
    """Each chunk costs the time of many bytes; a chunk for each line of a text is accepted."""
    async with served(PATIENT) as to:
        assert await to.status(_CHUNKED + b"1\r\na\r\n" * 10_000 + b"0\r\n\r\n") in {0, 400}
        lines = (b"28\r\n" + b"a" * 40 + b"\r\n") * 10_000
        assert await to.status(_CHUNKED + lines + b"0\r\n\r\n") == 200


async def test_trailers_are_no_headers() -> None:
    """A trailer does not become a header of the request."""
    async with served(PATIENT) as to:
        body = b"1\r\na\r\n0\r\nX-Forwarded-For: 10.0.0.1\r\n\r\n"
        assert await to.status(_CHUNKED + body) == 200
        assert [name for name, _ in to.application.scopes[0]["headers"]] == [
            b"host",
            b"transfer-encoding",
        ]


async def test_headers_are_bounded_in_number() -> None:
    """The number of headers is limited, also of small ones."""
    async with served(PATIENT) as to:
        many = b"".join(b"X-%d: y\r\n" % at for at in range(MAX_HEADER_COUNT))
        assert await to.status(b"GET / HTTP/1.1\r\nHost: x\r\n" + many + b"\r\n") == 431


async def test_pipelined_requests_are_bounded_and_answered_in_order() -> None:
    """Few pipelined requests wait. A bad one is refused after those before it."""
    async with served(PATIENT) as to:
        reader, _ = await to.connect(GET % b"hold" + GET % b"b" + b"GET \r\n\r\n")
        await eventually_async(lambda: len(to.application.scopes) == 1)
        to.application.released.set()
        response = await ended(reader)
    assert [line.split(b" ")[1] for line in response.splitlines() if b"HTTP/1.1 " in line] == [
        b"200",
        b"200",
        b"400",
    ]
    async with served(PATIENT) as to:
        reader, _ = await to.connect(GET % b"hold" + GET % b"b" * 1000)
        await eventually_async(lambda: len(to.application.scopes) == 1)
        to.application.released.set()
        assert (await ended(reader)).count(b"HTTP/1.1 ") < 100


@pytest.mark.parametrize("protocol", [b"h2c", b"websocket", b"TLS/1.0"])
async def test_protocol_upgrades_are_ignored(protocol: bytes) -> None:
    """The response is HTTP/1.1, and the bytes of another protocol are not read."""
    upgrade = (
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: " + protocol + b"\r\n\r\n"
    )
    async with served(PATIENT) as to:
        reader, _ = await to.connect(upgrade + GET % b"smuggled")
        response = await ended(reader)
        assert response.startswith(b"HTTP/1.1 200 ")
        assert [each["path"] for each in to.application.scopes] == ["/"]


async def test_requests_of_one_address_do_not_delay_others() -> None:
    """Few requests start in one turn of the loop, and another address overtakes waiting ones."""
    limits = replace(PATIENT, connections=300, per_source=200)
    async with served(limits) as to:
        connections = [await to.connect() for _ in range(150)]
        other, one = await to.connect(source="127.0.0.2")
        probe, probing = await to.connect(source="127.0.0.3")
        for _, writer in connections:
            writer.write(GET % b"many")
        one.write(GET % b"other")
        probing.write(GET % b"readyz")
        assert (await status(other), await status(probe)) == (200, 200)
        assert [await status(reader) for reader, _ in connections] == [200] * len(connections)
        paths = [each["path"] for each in to.application.scopes]
    assert paths.index("/readyz") < 3 * STARTS_PER_TURN
    assert paths.index("/other") < 5 * STARTS_PER_TURN
