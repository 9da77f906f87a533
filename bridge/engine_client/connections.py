"""
Calls to our own engine in another process, over connections that are kept.

Does what such a call needs and no more: no TLS, no redirects, no cookies, no compression. Other
services are called by httpx (`bridge.engine_client.over_httpx`), which costs ten times as much.
"""

import asyncio
from collections import deque

from typing_extensions import override

from bridge.engine_client.calling import (
    Answer,
    Caller,
    Request,
    no_answer,
    target,
    unreachable,
)
from bridge.engine_client.connection import Connection, Cut

MOST, MOST_IDLE = 64, 32
"""Connections at a time, and of those that are kept while nobody needs them."""

CONNECT_SECONDS = 5.0
SILENCE_SECONDS = 30.0
"""How long a connection may take to come about; for an answer, a part of it, or a free one."""

KEPT_SECONDS = 30.0
"""How long an idle one is used again: less than our server keeps it (75 s)."""


class Connections(Caller):
    """Connections to one address. Lives on one event loop."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        named = f"[{host}]" if ":" in host else host
        self._base = f"http://{named}:{port}"
        self._fixed = f" HTTP/1.1\r\nhost: {named}:{port}\r\n"
        self._idle: deque[Connection] = deque()
        self._room = asyncio.Semaphore(MOST)

    @override
    async def ask(self, request: Request) -> Answer:
        written = self._written(request)
        await self._enter(request.path)
        try:
            connection = await self._connection(request.path)
            try:
                answer = await connection.exchange(written, request.wait or SILENCE_SECONDS)
            except Cut:
                raise no_answer(request.path) from None
            self._keep(connection)
            return answer
        finally:
            self._room.release()

    @override
    async def aclose(self) -> None:
        while self._idle:
            self._idle.pop().close()

    async def _enter(self, path: str) -> None:
        """Wait for a connection to be free."""
        if not self._room.locked():
            await self._room.acquire()
            return
        try:
            async with asyncio.timeout(SILENCE_SECONDS):
                await self._room.acquire()
        except TimeoutError:
            raise unreachable(path) from None

    async def _connection(self, path: str) -> Connection:
        """Give the one that was used last, or a new one."""
        loop = asyncio.get_running_loop()
        while self._idle:
            kept = self._idle.pop()
            if kept.is_open and loop.time() - kept.idle_since < KEPT_SECONDS:
                return kept
            kept.close()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, made = await loop.create_connection(Connection, self._host, self._port)
        except (OSError, TimeoutError):
            raise unreachable(path) from None
        return made

    def _keep(self, connection: Connection) -> None:
        if connection.is_open and len(self._idle) < MOST_IDLE:
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)
        else:
            connection.close()

    def _written(self, request: Request) -> bytes:
        """Write a request. Raises EngineFailure."""
        asked = target(request, self._base)
        body = request.content or b""
        lines = [f"{name}: {value}\r\n" for name, value in request.headers.items()]
        if body or request.method not in {"GET", "HEAD"}:
            lines.append(f"content-length: {len(body)}\r\n")
        head = f"{request.method} {asked}{self._fixed}{''.join(lines)}\r\n"
        return head.encode() + body
