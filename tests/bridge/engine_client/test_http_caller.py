"""Requests over sockets: their content, connection reuse, and failures."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count

import httpx
import pytest

from bridge.engine_client import EngineFailure
from bridge.engine_client.callers import HttpCaller, http_caller
from bridge.engine_client.transport import EngineRequest, EngineResponse
from bridge.errors import FailureKind
from tests.eventually import PATIENCE

Answering = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

GET = EngineRequest("GET", "/x", {})
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Server:
    """A server on a socket that answers each connection by one rule, and counts them."""

    def __init__(self, answering: Answering) -> None:
        self._answering = answering
        self.connections = 0
        self.url = ""
        self.tasks: list[asyncio.Task[None] | None] = []

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.tasks.append(asyncio.current_task())
        with suppress(asyncio.IncompleteReadError, OSError):
            await self._answering(reader, writer)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


@asynccontextmanager
async def served(answering: Answering) -> AsyncIterator[tuple[Server, HttpCaller]]:
    """Serve by one rule; give the server, and who asks it."""
    server = Server(answering)
    listening = await asyncio.start_server(server.take, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    server.url = f"http://127.0.0.1:{port}"
    caller = http_caller(server.url)
    async with listening:
        yield server, caller
        await caller.aclose()
        async with asyncio.timeout(PATIENCE):  # nothing is left open
            await asyncio.gather(*(each for each in server.tasks if each is not None))


def always(*parts: bytes) -> Answering:
    """Answer each request of a connection with these parts, written apart."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await reader.readuntil(b"\r\n\r\n")
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0)

    return answer


@pytest.mark.anyio
async def test_a_connection_is_used_again() -> None:
    """Requests after each other need one connection; those at the same time, one each."""
    async with served(always(OK)) as (server, http):
        for _ in range(3):
            assert (await http.send(GET)).content == b"ok"
        assert server.connections == 1
        await asyncio.gather(*(http.send(GET) for _ in range(3)))
        assert server.connections == 3


@pytest.mark.anyio
async def test_a_connection_that_was_closed_is_not_used_again() -> None:
    """Neither one that the answer said is the last of, nor one that the server closed later."""
    last = OK.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
    async with served(always(last)) as (server, http):
        await http.send(GET)
        await http.send(GET)
        assert server.connections == 2

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)

    async with served(once) as (server, http):
        await http.send(GET)
        await asyncio.gather(*(each for each in server.tasks if each is not None))
        await asyncio.sleep(0.02)  # a turn of the loop hears that it was closed
        await http.send(GET)
        assert server.connections == 2


@pytest.mark.anyio
async def test_an_answer_in_parts() -> None:
    """Chunks, parts of a head, and what announces another answer."""
    chunked = b"HTTP/1.1 500 Bad\r\nX-Error-Class: business\r\ntransfer-encoding: chunked\r\n\r\n"
    parts = (
        b"HTTP/1.1 103 Hints\r\n\r\n",
        chunked[:30],
        chunked[30:],
        b"2\r\nab\r\n",
        b"0\r\n\r\n",
    )
    async with served(always(*parts)) as (server, http):
        for _ in range(2):
            answer = await http.send(GET)
            assert (answer.status, answer.content) == (500, b"ab")
            assert answer.headers["x-error-class"] == "business"
        assert server.connections == 1


@pytest.mark.anyio
async def test_what_is_sent() -> None:
    """A path with odd characters, a query as httpx writes it, headers and a body."""
    asked = bytearray()

    async def read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.extend(await reader.readuntil(b"{}"))
        writer.write(b"HTTP/1.1 204 No\r\n\r\n")

    async with served(read) as (_, http):
        query = {"after": 1, "without": ["a b", "c&d"], "on": True}
        request = EngineRequest("POST", "/a%2Fb c\r\nd\u00e9", {"t": "1"}, b"{}", query)
        assert await http.send(request) == EngineResponse(204, {}, b"")
    line, *headers = bytes(asked).decode().split("\r\n")
    head, body = headers[:-1], headers[-1]
    said = "after=1&without=a%20b&without=c%26d&on=true"
    assert line == f"POST /a%2Fb%20c%0D%0Ad%C3%A9?{said} HTTP/1.1"
    assert {"t: 1", "content-length: 2"} <= {each.lower() for each in head}
    assert body == "{}"


@pytest.mark.anyio
@pytest.mark.parametrize("answer", [b"", OK[:-1], b"SECRET\r\n\r\n"])
async def test_no_whole_answer_is_ambiguous(answer: bytes) -> None:
    """Cut before it or in it, or no HTTP: nobody knows what became of the request."""

    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)

    async with served(cut) as (_, http):
        with pytest.raises(EngineFailure) as raised:
            await http.send(GET)
    assert (raised.value.failure, raised.value.code) == (FailureKind.AMBIGUOUS, "no_answer")
    assert "SECRET" not in str(raised.value)


@pytest.mark.anyio
async def test_a_late_response_is_discarded() -> None:
    """A timeout or cancellation closes the connection; the next request opens a new one."""
    numbers = count(1)

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mine = next(numbers)
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(0.1 if mine == 1 else 0)
        if mine != 2:
            writer.write(OK[:-2] + str(mine).encode() + b" ")
        await reader.read()  # until it is closed

    async with served(late) as (_, http):
        with pytest.raises(EngineFailure) as raised:
            await http.send(EngineRequest("GET", "/x", {}, wait=0.02))
        assert raised.value.failure is FailureKind.AMBIGUOUS
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await http.send(GET)
        assert (await http.send(GET)).content == b"3 "


@pytest.mark.anyio
@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gzip"])
async def test_an_answer_has_a_largest_size(compressed: bool) -> None:
    """An endless answer, or one that unpacks to much, ends at the limit with its connection."""
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
        client = httpx.AsyncClient(base_url=server.url, timeout=PATIENCE)
        caller = HttpCaller(client, largest=2**18)
        with pytest.raises(EngineFailure) as raised:
            await caller.send(GET)
        assert (raised.value.failure, raised.value.code) == (FailureKind.AMBIGUOUS, "too_large")
        async with asyncio.timeout(PATIENCE):
            await ended.wait()
        await caller.aclose()


@pytest.mark.anyio
async def test_cookies_of_an_answer_are_not_sent_again() -> None:
    """They belong to the user of that request."""
    requests: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            requests.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(OK.replace(b"\r\n\r\n", b"\r\nset-cookie: session=ANN; Path=/\r\n\r\n"))

    async with served(answer) as (_, http):
        await http.send(EngineRequest("GET", "/x", {"cookie": "session=BEN\u00e9"}))
        await http.send(GET)
    assert "cookie: session=BEN\u00e9".encode() in requests[0].lower().replace(b"ben", b"BEN")
    assert b"cookie" not in requests[1].lower()


@pytest.mark.anyio
@pytest.mark.anyio
async def test_nothing_was_sent() -> None:
    """Nobody listens: it may be tried again. What cannot be said in HTTP never can."""
    async with served(always(OK)) as (_, http):
        for request in (
            EngineRequest("GET", "http://elsewhere/x", {}),
            EngineRequest("GET", "/", {"a": "\n"}),
        ):
            with pytest.raises(EngineFailure) as raised:
                await http.send(request)
            assert (raised.value.failure, raised.value.code) == (
                FailureKind.PERMANENT,
                "bad_address",
            )
    with pytest.raises(EngineFailure) as raised:
        await http.send(GET)
    assert (raised.value.failure, raised.value.code) == (FailureKind.TRANSIENT, "unreachable")
