"""
In-process caller: sends requests to an ASGI application in this process.

The application runs in the caller's task, so cancelling the task cancels the application. Its
errors have the results of an HTTP server: status 500 before the response has started, else no
answer.
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
    """Sends requests to an application whose base URL is `base`."""

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
        with suppress(Exception):  # the application has logged it
            await self._application(scope, exchange.receive, exchange.send)
        if not exchange.begun:
            return EngineResponse(_FAULT, {}, b"")
        if not exchange.ended:
            raise no_answer(request.path)
        return exchange.answer()

    @override
    async def aclose(self) -> None:
        """Do nothing: no connection is open."""

    def _scope(self, request: EngineRequest) -> Message:
        """Return the ASGI scope of a request. Raises EngineFailure."""
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
    """One request and its response: the `receive` and `send` of ASGI."""

    def __init__(self, content: bytes) -> None:
        self._content: bytes | None = content
        self._status = 0
        self._headers: dict[str, str] = {}
        self._written: list[bytes] = []
        self._whole = asyncio.Event()

    @property
    def begun(self) -> bool:
        """Whether the response has started."""
        return self._status > 0

    @property
    def ended(self) -> bool:
        """Whether the response is complete."""
        return self._whole.is_set()

    async def receive(self) -> Message:
        """Return the request body; after the response, a disconnect."""
        if self._content is not None:
            content, self._content = self._content, None
            return {"type": "http.request", "body": content, "more_body": False}
        await self._whole.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Add a part of the response."""
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
        """Return the response."""
        return EngineResponse(self._status, self._headers, b"".join(self._written))
