"""
Calls to an application in this process, by ASGI and nothing between.

The application runs in the caller's task: who is cancelled cancels it. It is given what a
server would give it, and what becomes of a fault of its own is what a server makes of it: 500
where it has not begun to answer, and else no answer.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any
from urllib.parse import unquote, urlsplit

from typing_extensions import override

from bridge.engine_client.transport import (
    EngineCaller,
    EngineRequest,
    EngineResponse,
    no_answer,
    request_target,
)
from bridge.request_body import IN_PROCESS

Message = MutableMapping[str, Any]
Application = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]

_FAULT = 500
_US = ("127.0.0.1", 0)


class InProcessCaller(EngineCaller):
    """Asks an application that calls itself `base` (a URL)."""

    def __init__(self, application: Application, base: str) -> None:
        self._application = application
        self._base = base.rstrip("/")
        parts = urlsplit(base)
        self._scheme = parts.scheme
        self._host = (b"host", parts.netloc.encode("ascii"))
        self._server = (parts.hostname or "", parts.port)

    @override
    async def send(self, request: EngineRequest) -> EngineResponse:
        scope, exchange = self._scope(request), _Exchange(request.content or b"")
        with suppress(Exception):  # it has said so in its log
            await self._application(scope, exchange.receive, exchange.send)
        if not exchange.begun:
            return EngineResponse(_FAULT, {}, b"")
        if not exchange.ended:
            raise no_answer(request.path)
        return exchange.answer()

    @override
    async def aclose(self) -> None:
        """Nothing is open."""

    def _scope(self, request: EngineRequest) -> Message:
        """Describe a request as ASGI does. Raises EngineFailure."""
        path, _, query = request_target(request, self._base).partition("?")
        headers = [self._host]
        headers += [(n.lower().encode(), v.encode()) for n, v in request.headers.items()]
        if request.content:
            headers.append((b"content-length", b"%d" % len(request.content)))
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": self._scheme,
            "path": unquote(path),
            "raw_path": path.encode("ascii"),
            "query_string": query.encode("ascii"),
            "root_path": "",
            "headers": headers,
            "client": _US,
            "server": self._server,
            "extensions": {IN_PROCESS: {}},
        }


class _Exchange:
    """One request, as the application reads it, and its answer as far as it is written."""

    def __init__(self, content: bytes) -> None:
        self._content: bytes | None = content
        self._status = 0
        self._headers: dict[str, str] = {}
        self._written: list[bytes] = []
        self._whole = asyncio.Event()

    @property
    def begun(self) -> bool:
        """Whether it has said with which status it answers."""
        return self._status > 0

    @property
    def ended(self) -> bool:
        """Whether the answer is whole."""
        return self._whole.is_set()

    async def receive(self) -> Message:
        """Give the content, and after the answer word that nobody listens any more."""
        if self._content is not None:
            content, self._content = self._content, None
            return {"type": "http.request", "body": content, "more_body": False}
        await self._whole.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Take a part of the answer."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = {
                name.decode("latin-1").lower(): value.decode("latin-1")
                for name, value in message.get("headers", ())
            }
        elif message["type"] == "http.response.body":
            self._written.append(message.get("body", b""))
            if not message.get("more_body", False):
                self._whole.set()

    def answer(self) -> EngineResponse:
        """Give what was written."""
        return EngineResponse(self._status, self._headers, b"".join(self._written))
