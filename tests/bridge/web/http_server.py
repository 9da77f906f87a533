"""A web server on a real socket, with short or long time limits, and its application."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

from bridge.web.connections import HttpLimits
from bridge.web.server import WebServer
from config.quantities import Address

QUICK = HttpLimits(connections=8, per_source=6, silent=0.2, head=0.2, body=0.2, idle=0.2, write=0.3)
PATIENT = replace(QUICK, silent=60.0, head=60.0, body=60.0, idle=60.0, write=60.0)
GET = b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /%s HTTP/1.1\r\nHost: x\r\n"
WITHIN = 120

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
        reader, _ = await self.connect(sent, source)
        return await status(reader)


@asynccontextmanager
async def served(limits: HttpLimits) -> AsyncIterator[Served]:
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
    async with asyncio.timeout(WITHIN):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""
