"""
The body of an HTTP request, read within the limit of its route and the budget of the process.

The engine and the console read a body after they have authenticated the request. Before they parse
a JSON body, they refuse it if its values would need much more memory than its text. `has_nul`
examines the request line, `is_own_page` the origin.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final, Self

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope
from typing_extensions import override

from bridge.errors import BridgeError
from bridge.executors import ThreadLimit, Threads
from bridge.network_source import split_origin
from parsers.limits import JSON
from parsers.readers import read_json

MAX_VALUES: Final = JSON.count
"""Members and items of a JSON body; each needs up to 100 bytes, however short its text is."""

LARGE_JSON: Final = ThreadLimit(Threads.WEB, "request bodies", 2, 64)
"""Threads that read and write JSON of more than `SMALL` bytes, which anybody may request."""

SMALL: Final = 64 * 2**10
"""The budget refuses no body of at most this many bytes: the connection limit bounds the total."""

SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
"""The methods of requests that change nothing, so that a page of any origin may send them."""

IN_PROCESS: Final = "bridge.in_process"
"""The key of the ASGI scope's extensions that marks a call of this process to itself."""

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""A complete or unterminated string. No character is examined twice."""
_OPENING = (b"[", b"{", b",")


def is_in_process(scope: Scope) -> bool:
    """True for a call of this process to itself."""
    return IN_PROCESS in (scope.get("extensions") or {})


def has_nul(scope: Scope) -> bool:
    """True if the path or query has a NUL character, which PostgreSQL does not store."""
    query = scope.get("query_string", b"")
    return "\x00" in scope["path"] or b"%00" in query or b"\x00" in query


def is_own_page(headers: Mapping[str, str], *hosts: str) -> bool:
    """
    True if a page of one of our hosts sent a request; browsers send cookies also for other pages.

    Browsers name the page in headers that no page can set (Fetch Metadata, `Origin`). A request
    without them does not come from a page.
    """
    if site := headers.get("sec-fetch-site", ""):
        return site == "same-origin"
    host = split_origin(headers.get("origin", ""))[1].lower()
    return bool(host) and host in hosts


class BodyTooLarge(BridgeError):
    """A request has more bytes than its route permits."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the request is larger than {limit} bytes")
        self.limit = limit


class TooManyValues(BodyTooLarge):
    """A JSON body has too many members and items."""

    def __init__(self) -> None:
        BridgeError.__init__(self, f"the body has more than {MAX_VALUES} values")
        self.limit = MAX_VALUES


class BudgetExhausted(BridgeError):
    """The bodies in progress use the whole memory budget; retry later."""

    def __init__(self) -> None:
        super().__init__("too many large requests are in progress; try again")


class BodyBudget:
    """Memory for the bodies of all requests in progress, in bytes."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.used = 0

    def take(self, count: int) -> None:
        """
        Reserve memory. Raises BudgetExhausted.

        A body may be of any size if no other has reserved memory. A small one is never refused.
        """
        if count > SMALL and self.used and self.used + count > self.size:
            raise BudgetExhausted
        self.used += count

    def give_back(self, count: int) -> None:
        """Release what was reserved."""
        self.used -= count


BUDGET: Final = BodyBudget(96 * 2**20)
"""The budget of this process; `serve` sets its size."""


class BoundedRequest(Request):
    """
    A request whose body is read within `limit` bytes, and within the budget.

    Use it as a context manager: its memory counts as used until the exit.
    """

    def __init__(self, request: Request, limit: int) -> None:
        super().__init__(request.scope, request.receive)
        self.limit = limit
        self._bytes: bytes | None = None
        self._values: Any = None
        self._is_parsed = False
        self._reserved = 0
        self._is_in_process = is_in_process(request.scope)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        BUDGET.give_back(self._reserved)
        self._reserved = 0

    @override
    async def body(self) -> bytes:
        """Read the body once. Raises BodyTooLarge, BudgetExhausted."""
        if self._bytes is None:
            self._bytes = await self._read()
        return self._bytes

    @override
    async def json(self) -> Any:
        """Parse the body once. Raises TooManyValues and what `parse` raises."""
        if not self._is_parsed:
            body = await self.body()
            # Parsing a large body takes a tenth of a second; on the loop it would delay listeners.
            large = len(body) > SMALL
            self._values = await LARGE_JSON.run(self.parse, body) if large else self.parse(body)
            self._is_parsed = True
        return self._values

    def parse(self, body: bytes) -> Any:
        """Parse JSON. Raises TooManyValues, DocumentRefused."""
        require_few_values(body)
        return read_json(body)

    async def _read(self) -> bytes:
        declared = self.headers.get("content-length", "")
        if declared.isdigit():
            if int(declared) > self.limit:
                raise BodyTooLarge(self.limit)
            self._reserve(int(declared))
        chunks: list[bytes] = []
        size = 0
        async for chunk in self.stream():
            size += len(chunk)
            if size > self.limit:
                raise BodyTooLarge(self.limit)
            if size > self._reserved:  # no length was declared: reserve twice as much each time
                self._reserve(max(size - self._reserved, self._reserved, SMALL))
            chunks.append(chunk)
        return b"".join(chunks)

    def _reserve(self, count: int) -> None:
        if not self._is_in_process:
            BUDGET.take(count)
            self._reserved += count


class BoundedRoute(APIRoute, ABC):
    """
    A route that admits the caller, and then reads the body within a limit.

    FastAPI alone would read and parse the body of an unknown client.
    """

    @abstractmethod
    async def admit(self, request: Request) -> None:
        """Raise unless the caller may send this request."""

    @abstractmethod
    def bounded(self, request: Request) -> AbstractContextManager[BoundedRequest]:
        """Return the request with the limit of its body; turn errors of the limit into others."""

    @abstractmethod
    async def read_body(self, request: Any) -> None:
        """Read the body; raise if it is not as the route requires."""

    @override
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            await self.admit(request)
            with self.bounded(request) as bounded:
                await self.read_body(bounded)
                return await handler(bounded)

        return guarded


def require_few_values(text: bytes) -> None:
    """Raise TooManyValues for a JSON text with more than MAX_VALUES; costs no memory per value."""
    if _openings(text, 0, len(text)) <= MAX_VALUES:  # some of them may be within strings
        return
    outside = end = 0
    for strings, found in enumerate(_STRING.finditer(text)):
        outside += _openings(text, end, found.start())
        end = found.end()
        # Each value has at most one name. Strings without a comma between them are not JSON.
        if outside > MAX_VALUES or strings > 2 * MAX_VALUES:
            raise TooManyValues
    if outside + _openings(text, end, len(text)) > MAX_VALUES:
        raise TooManyValues


def _openings(text: bytes, start: int, end: int) -> int:
    return sum(text.count(sign, start, end) for sign in _OPENING)
