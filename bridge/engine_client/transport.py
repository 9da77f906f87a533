"""
One call over HTTP: the token of the site, the answer as a value, failures classified.

Knows no endpoint, and nothing of sockets.
"""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from pydantic_core import from_json, to_json

from bridge.contract import TOKEN_HEADER
from bridge.engine_client.calling import Answer, Caller, Request, no_answer
from bridge.engine_client.classification import OK, classify, code_of, retry_after
from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.replies import Unreadable
from bridge.queue.states import Failure

T = TypeVar("T")

DEADLINE = 60.0
"""Seconds that a call takes at most, whoever carries it, beyond the wait that it asks for."""

LARGEST_LONG_POLL = 5.0  # seconds that an answer may take beyond the wait we asked for


class Tokens:
    """Which access token goes with which site."""

    def __init__(self, default: str = "", by_site: Mapping[str, str] | None = None) -> None:
        """Take one token for all sites, or one a site, or both (the site's own wins)."""
        self._default = default
        self._by_site = dict(by_site or {})

    def of(self, site: str) -> str:
        """Give the token for a site; '' when there is none."""
        return self._by_site.get(site, self._default)

    def distinct(self) -> tuple[str, ...]:
        """Name one site for each different token ('' stands for the default)."""
        seen = {token: site for site, token in reversed(self._by_site.items())}
        if self._default:
            seen = {self._default: "", **{t: s for t, s in seen.items() if t != self._default}}
        return tuple(seen.values())


class Transport:
    """Sends one request, returns what `read` makes of the answer, or raises EngineFailure."""

    def __init__(self, caller: Caller, tokens: Tokens, deadline: float = DEADLINE) -> None:
        """Take who carries the calls to the service; `deadline` in seconds."""
        self._caller = caller
        self._deadline = deadline
        self.tokens = tokens

    async def call(
        self,
        method: str,
        path: str,
        site: str,
        read: Callable[[object], T],
        *,
        body: object = None,
        query: Mapping[str, Any] | None = None,
        wait: float = 0.0,
    ) -> T:
        """Send JSON, read JSON; `wait` seconds are added to the read time-out."""
        response = await self.send(method, path, site, body=body, query=query, wait=wait)
        try:
            return read(_value(response))
        except (Unreadable, ValueError, RecursionError) as error:
            raise EngineFailure(path, Failure.AMBIGUOUS, "unreadable", response.status) from _named(
                error
            )

    async def send(
        self,
        method: str,
        path: str,
        site: str,
        *,
        body: object = None,
        query: Mapping[str, Any] | None = None,
        wait: float = 0.0,
    ) -> Answer:
        """Send a request; a successful answer comes back whole, any other raises."""
        silence = wait + LARGEST_LONG_POLL if wait else 0.0
        return await self._answer(self._request(method, path, site, body, query, silence))

    async def relay(
        self,
        method: str,
        path: str,
        site: str,
        *,
        body: object = None,
        query: Mapping[str, Any] | None = None,
    ) -> tuple[int, Any]:
        """Send JSON for a person; give status and body of the answer, a refusal's too."""
        response = await self._ask(self._request(method, path, site, body, query))
        try:
            return response.status, response.json() if response.content else None
        except (ValueError, RecursionError):
            raise EngineFailure(path, Failure.PERMANENT, "unreadable") from None

    async def visit(self, path: str, cookies: str, *, unattended: bool) -> Answer:
        """Read in the name of a browser that sent these cookies: no token of ours goes along."""
        headers = {"cookie": cookies, "accept": "application/json"}
        if unattended:
            headers["x-unattended"] = "1"
        return await self._answer(Request("GET", path, headers))

    async def _ask(self, request: Request) -> Answer:
        """
        Have a request carried; raise `no_answer` where that takes longer than DEADLINE.

        The service may have done what was asked: the failure is ambiguous, and the call, being
        idempotent, is repeated.
        """
        try:
            async with asyncio.timeout(self._deadline + request.wait):
                return await self._caller.ask(request)
        except TimeoutError:
            raise no_answer(request.path) from None

    async def _answer(self, request: Request) -> Answer:
        response = await self._ask(request)
        if response.status in OK:
            return response
        raise failure_of(request.path, response)

    def _request(
        self,
        method: str,
        path: str,
        site: str,
        body: object,
        query: Mapping[str, Any] | None,
        silence: float = 0.0,
    ) -> Request:
        headers = {TOKEN_HEADER: self.tokens.of(site), "accept": "application/json"}
        if body is None:
            return Request(method, path, headers, None, query, silence)
        headers["content-type"] = "application/json"
        return Request(method, path, headers, to_json(body), query, silence)


def _value(response: Answer) -> object:
    """Read JSON; what is not plain UTF-8 more tolerantly. Raises ValueError."""
    if not response.content:
        return None
    try:
        return from_json(response.content)
    except ValueError:
        return response.json()


def failure_of(call: str, response: Answer) -> EngineFailure:
    """Classify an answer that is not a success."""
    try:
        problem = response.json()
    except (ValueError, RecursionError):
        problem = None
    status, code = response.status, code_of(problem, response.status)
    business = response.headers.get("x-error-class") == "business"
    after = retry_after(response.headers.get("retry-after"), datetime.now(UTC))
    return EngineFailure(call, classify(status, code, business=business), code, status, after)


def _named(error: Exception) -> Exception | None:
    """Keep a cause that names places; a decoder's own error quotes the document."""
    return error if isinstance(error, Unreadable) else None
