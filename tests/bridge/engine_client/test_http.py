"""Requests over sockets: their content, connection reuse, and failures."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import httpx
import pytest

from bridge.engine_client.client import EngineClient, over_http
from bridge.engine_client.errors import EngineFailure
from bridge.errors import FailureKind
from tests.eventually import PATIENCE

Responder = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n42"


class Server:
    def __init__(self, responder: Responder) -> None:
        self._responder = responder
        self.connections = 0
        self.url = ""
        self.tasks: list[asyncio.Task[None] | None] = []

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.tasks.append(asyncio.current_task())
        with suppress(asyncio.IncompleteReadError, OSError):
            await self._responder(reader, writer)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


@asynccontextmanager
async def served(responder: Responder) -> AsyncIterator[tuple[Server, EngineClient]]:
    server = Server(responder)
    listening = await asyncio.start_server(server.take, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    server.url = f"http://127.0.0.1:{port}"
    http = over_http(server.url)
    async with listening:
        yield server, EngineClient(http, "T")
        await http.aclose()
        async with asyncio.timeout(PATIENCE):  # nothing is left open
            await asyncio.gather(*(task for task in server.tasks if task is not None))


def always(*parts: bytes) -> Responder:
    async def response(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await reader.readuntil(b"\r\n\r\n")
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0)

    return response


async def test_connections_are_reused() -> None:
    """Sequential requests share one connection; concurrent requests have one each."""
    async with served(always(OK)) as (server, client):
        for _ in range(3):
            assert await client.administer("GET", "/sites") == (200, 42)
        assert server.connections == 1
        await asyncio.gather(*(client.administer("GET", "/sites") for _ in range(3)))
        assert server.connections == 3


async def test_a_closed_connection_is_not_reused() -> None:
    """After `connection: close`, and after the server closed an idle connection."""
    last = OK.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
    async with served(always(last)) as (server, client):
        await client.administer("GET", "/sites")
        await client.administer("GET", "/sites")
        assert server.connections == 2

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)

    async with served(once) as (server, client):
        await client.administer("GET", "/sites")
        await asyncio.gather(*(task for task in server.tasks if task is not None))
        for _ in range(10):  # the event loop processes the close
            await asyncio.sleep(0)
        await client.administer("GET", "/sites")
        assert server.connections == 2


async def test_a_response_in_parts() -> None:
    """An interim response, a head in two writes, and chunks."""
    chunked = b"HTTP/1.1 500 Bad\r\nX-Error-Class: business\r\ntransfer-encoding: chunked\r\n\r\n"
    parts = (
        b"HTTP/1.1 103 Hints\r\n\r\n",
        chunked[:30],
        chunked[30:],
        b"2\r\n42\r\n",
        b"0\r\n\r\n",
    )
    async with served(always(*parts)) as (server, client):
        for _ in range(2):
            assert await client.administer("GET", "/sites") == (500, 42)
        assert server.connections == 1


async def test_the_request_on_the_wire() -> None:
    """A quoted path, a query, headers and a body."""
    received = bytearray()

    async def read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.extend(await reader.readuntil(b"{}"))
        writer.write(b"HTTP/1.1 204 No\r\n\r\n")

    async with served(read) as (_, client):
        query = {"after": 1, "without": ["a b", "c&d"], "on": True}
        path = "/a%2Fb c\u00e9"
        assert await client.administer("POST", path, body={}, query=query) == (204, None)
    line, *headers = bytes(received).decode().split("\r\n")
    head, body = headers[:-1], headers[-1]
    encoded = "after=1&without=a+b&without=c%26d&on=true"
    assert line == f"POST /api/admin/a%2Fb%20c%C3%A9?{encoded} HTTP/1.1"
    assert {"x-access-token: t", "content-length: 2"} <= {text.lower() for text in head}
    assert body == "{}"


@pytest.mark.parametrize("response", [b"", OK[:-1], b"SECRET\r\n\r\n"])
async def test_an_incomplete_response_is_ambiguous(response: bytes) -> None:
    """The connection ends before or in the response, or the response is not HTTP."""

    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(response)

    async with served(cut) as (_, client):
        with pytest.raises(EngineFailure) as raised:
            await client.administer("GET", "/sites")
    assert (raised.value.failure, raised.value.code) == (FailureKind.AMBIGUOUS, "no_answer")
    assert "SECRET" not in str(raised.value)


async def test_a_late_response_is_discarded() -> None:
    """A timeout or cancellation closes the connection; the next request opens a new one."""
    arrived, given_up = asyncio.Event(), asyncio.Event()

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1]
        arrived.set()
        if path != b"/api/admin/3":
            await given_up.wait()
        writer.write(OK[:-2] + b" " + path[-1:])
        await reader.read()  # until it is closed

    async with served(late) as (server, client):
        with pytest.raises(EngineFailure) as raised:
            await EngineClient(over_http(server.url), "T", deadline=0.02).administer("GET", "/1")
        assert raised.value.failure is FailureKind.AMBIGUOUS
        arrived.clear()
        request = asyncio.create_task(client.administer("GET", "/2"))
        await arrived.wait()
        request.cancel()
        given_up.set()
        assert await client.administer("GET", "/3") == (200, 3)


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gzip"])
async def test_the_size_of_a_response_is_limited(compressed: bool) -> None:
    """An endless response, also a compressed one, ends at the limit, with its connection."""
    part = gzip.compress(bytes(2**20)) if compressed else bytes(2**16)
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n"
    head += b"content-encoding: gzip\r\n\r\n" if compressed else b"\r\n"
    ended = asyncio.Event()

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head)
        with suppress(OSError):
            while True:
                writer.write(b"%x\r\n%b\r\n" % (len(part), part))
                await writer.drain()
                await asyncio.sleep(0)
        ended.set()

    async with served(endless) as (server, _):
        http = httpx.AsyncClient(base_url=server.url, timeout=PATIENCE)
        client = EngineClient(http, "T", max_response_bytes=2**18)
        with pytest.raises(EngineFailure) as raised:
            await client.administer("GET", "/sites")
        assert (raised.value.failure, raised.value.code) == (FailureKind.AMBIGUOUS, "too_large")
        async with asyncio.timeout(PATIENCE):
            await ended.wait()
        await http.aclose()


async def test_cookies_of_a_response_are_not_sent_again() -> None:
    """They belong to the user of that request."""
    requests: list[bytes] = []

    async def response(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            requests.append(await reader.readuntil(b"\r\n\r\n"))
            cookie = b"\r\nset-cookie: session=ANN; Path=/\r\ncontent-length: 2\r\n\r\n"
            writer.write(b"HTTP/1.1 401 No" + cookie + b"{}")

    async with served(response) as (_, client):
        assert await client.signed_in_user("session=BEN\u00e9") is None
        await client.administer("GET", "/sites")
    assert "cookie: session=BEN\u00e9".encode() in requests[0].lower().replace(b"ben", b"BEN")
    assert b"cookie" not in requests[1].lower()


async def test_requests_that_were_not_sent() -> None:
    """A refused connection is transient. A request that is invalid in HTTP is permanent."""
    async with served(always(OK)) as (_, client):
        with pytest.raises(EngineFailure) as raised:
            await client.signed_in_user("session=1\n")
        assert (raised.value.failure, raised.value.code) == (FailureKind.PERMANENT, "bad_address")
    with pytest.raises(EngineFailure) as raised:
        await client.administer("GET", "/sites")
    assert (raised.value.failure, raised.value.code) == (FailureKind.TRANSIENT, "unreachable")
