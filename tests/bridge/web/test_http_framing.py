"""Bodies, chunks, headers and pipelines of HTTP requests are bounded and unambiguous."""

import asyncio
import json
from contextlib import suppress

import pytest

from bridge.web.protocol import MAX_HEADER_COUNT
from tests.bridge.web.http_server import (
    GET,
    PATIENT,
    POST,
    WITHIN,
    ended,
    served,
    status,
)
from tests.eventually import eventually_async


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
                    writer.write(bytes(PATIENT.linger_bytes))
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
        assert "/smuggled" not in [scope["path"] for scope in to.application.scopes]


@pytest.mark.parametrize("endless", [b"1;", b"1;a=", b"0\r\nX-A: "])
async def test_chunk_extensions_and_trailers_are_bounded(endless: bytes) -> None:
    """Too many chunk extensions or trailers end the request."""
    async with served(PATIENT) as to:
        reader, writer = await to.connect(_CHUNKED + endless)
        writer.write(b"a" * 2**20)
        assert await status(reader) in {0, 400}
        assert b"".join(scope["query_string"] for scope in to.application.scopes) == b""


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
        assert [scope["path"] for scope in to.application.scopes] == ["/"]
