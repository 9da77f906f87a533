"""
One connection over which requests are written and their answers read, one at a time.

HTTP/1.1 as a server of ours speaks it: an answer has a length or is chunked. Knows no addresses
and no pool.
"""

import asyncio
from typing import cast

import httptools
from typing_extensions import override

from bridge.engine_client.calling import Answer

_FIRST_FINAL = 200  # what is below announces another answer, RFC 9110 §15.2


class Cut(Exception):  # noqa: N818  # what happened to it
    """The connection ended, fell silent or said what is no HTTP, before the answer was whole."""


class Connection(asyncio.Protocol):
    """An open connection; `is_open` until either side ends it."""

    def __init__(self) -> None:
        self.is_open = True
        self.idle_since = 0.0
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.WriteTransport | None = None
        self._waiting: asyncio.Future[Answer] | None = None
        self._begin()

    async def exchange(self, request: bytes, patience: float) -> Answer:
        """
        Write a request and give its answer; `patience` is how many seconds may pass in silence.

        Raises Cut. Whoever is cancelled meanwhile ends the connection: its answer is still to come.
        """
        if self._transport is None or not self.is_open:
            raise Cut
        self._waiting = self._loop.create_future()
        self._heard = self._loop.time()
        self._alarm = self._loop.call_later(patience, self._listen, patience)
        try:
            self._transport.write(request)
            return await self._waiting
        except BaseException:
            self.close()
            raise
        finally:
            self._alarm.cancel()
            self._waiting = None

    def close(self) -> None:
        """End it now."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    @override
    def data_received(self, data: bytes) -> None:
        self._heard = self._loop.time()
        if self._waiting is None or self._waiting.done():  # nobody asked
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._fail()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._fail()

    def _listen(self, patience: float) -> None:
        """Wait on while something comes."""
        left = self._heard + patience - self._loop.time()
        if left <= 0:
            self._fail()
        else:
            self._alarm = self._loop.call_later(left, self._listen, patience)

    def _fail(self) -> None:
        self.close()
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(Cut())

    def _begin(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []

    # What the parser calls.

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take note of a header."""
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, data: bytes) -> None:
        """Take a part of the content."""
        self._body.append(data)

    def on_message_complete(self) -> None:
        """Hand the answer over, and be ready for the next."""
        status = self._parser.get_status_code()
        headers, self._headers = self._headers, {}
        body, self._body = self._body, []
        if status < _FIRST_FINAL or self._waiting is None or self._waiting.done():
            return
        self.is_open = self.is_open and self._parser.should_keep_alive()
        self._waiting.set_result(Answer(status, headers, b"".join(body)))
