"""A proxy to a PostgreSQL server that cuts the connection at a certain statement."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from enum import Enum
from typing import Any

import sqlalchemy


class Cut(Enum):
    """Where the connection is cut."""

    NOWHERE = "nowhere"
    BEFORE = "before the statement reaches the server"
    AFTER = "when the server has answered it"


class CuttingProxy:
    """Forwards connections to a server's socket; `cut` is done once, where `mark` is sent."""

    def __init__(self, address: str, mark: bytes) -> None:
        self._target = sqlalchemy.make_url(address)
        self._mark = mark
        self.cut = Cut.NOWHERE
        self.cuts = 0
        self._served: list[Any] = []

    @asynccontextmanager
    async def open(self) -> AsyncIterator[str]:
        """Listen; give the address to use instead."""
        async with await asyncio.start_server(self._serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            plain = self._target.set(query={}, host="127.0.0.1", port=port)
            yield plain.render_as_string(hide_password=False)
        await asyncio.gather(*self._served)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._served.append(asyncio.current_task())
        place = f"{self._target.query['host']}/.s.PGSQL.{self._target.port or 5432}"
        answers, questions = await asyncio.open_unix_connection(place)
        marked = asyncio.Event()
        both = (self._ask(reader, questions, marked), self._answer(answers, writer, marked))
        ways = [asyncio.create_task(each) for each in both]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        if marked.is_set():
            self.cut, self.cuts = Cut.NOWHERE, self.cuts + 1
        for each in ways:
            each.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        for end in (writer, questions):
            end.close()
            with suppress(ConnectionError):
                await end.wait_closed()

    async def _ask(
        self, asked: asyncio.StreamReader, server: asyncio.StreamWriter, marked: asyncio.Event
    ) -> None:
        while chunk := await asked.read(2**16):
            if self.cut is not Cut.NOWHERE and self._mark in chunk:
                marked.set()
                if self.cut is Cut.BEFORE:
                    return
            server.write(chunk)

    async def _answer(
        self, server: asyncio.StreamReader, asked: asyncio.StreamWriter, marked: asyncio.Event
    ) -> None:
        while chunk := await server.read(2**16):
            if marked.is_set():
                return
            asked.write(chunk)
