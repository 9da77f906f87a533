"""
One call over HTTP: the token of the site, the answer as a value, failures classified.

Knows no endpoint. A `Caller` carries the request: `http_caller` to any service, `in_process` to our
own engine in the same process.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import quote, urlencode

from pydantic_core import from_json, to_json

from bridge.contract import TOKEN_HEADER
from bridge.engine_client.errors import OK, EngineFailure, classify, code_of, retry_after
from bridge.engine_client.responses import UnreadableResponse
from bridge.errors import FailureKind

T = TypeVar("T")

_SAFE: Final = "/?&=%:@!$'()*+,;~"  # what a path and a query may have, RFC 3986 §3.3, §3.4
_NOT_IN_A_FIELD: Final = frozenset("\r\n\0")  # RFC 9110 §5.5


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """A request; `wait`: the seconds of silence before its answer, 0: as many as usual."""

    method: str
    path: str
    headers: Mapping[str, str]
    content: bytes | None = None
    query: Mapping[str, Any] | None = None
    wait: float = 0.0


@dataclass(frozen=True, slots=True)
class EngineResponse:
    """An answer, whole; the names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def text(self) -> str:
        """The content as text; all that we ask for is UTF-8."""
        return self.content.decode(errors="replace")

    def json(self) -> Any:
        """Read JSON in whichever of Unicode's encodings. Raises ValueError, RecursionError."""
        return json.loads(self.content)


class EngineCaller(Protocol):
    """Carries requests to one service."""

    async def send(self, request: EngineRequest) -> EngineResponse:
        """Give the answer, whatever its status. Raises EngineFailure where there is none."""

    async def aclose(self) -> None:
        """Close all connections."""


def unreachable(path: str) -> EngineFailure:
    """Nothing was sent."""
    return EngineFailure(path, FailureKind.TRANSIENT, "unreachable")


def no_answer(path: str) -> EngineFailure:
    """Nobody knows what became of it."""
    return EngineFailure(path, FailureKind.AMBIGUOUS, "no_answer")


def bad_address(path: str) -> EngineFailure:
    """Nothing can be sent there, however often it is tried."""
    return EngineFailure(path, FailureKind.PERMANENT, "bad_address")


def request_target(request: EngineRequest, base: str) -> str:
    """
    Give what a request asks for: quoted path and query, of a service that is found at `base`.

    Raises EngineFailure where it is another service's, or where a header would end itself.
    """
    path = quote(request.path.removeprefix(base), safe=_SAFE)
    if not path.startswith("/") or any(map(_is_broken, request.headers.values())):
        raise bad_address(request.path)
    if request.query:
        path += ("&" if "?" in path else "?") + _query(request.query)
    return path


def _is_broken(value: str) -> bool:
    """Tell whether a value would end its header."""
    return not _NOT_IN_A_FIELD.isdisjoint(value)


def _query(values: Mapping[str, Any]) -> str:
    """Write a query; what is true or false in JSON's words, each of a list for itself."""
    pairs = [
        (name, {True: "true", False: "false"}[each] if isinstance(each, bool) else each)
        for name, value in values.items()
        for each in (value if isinstance(value, list | tuple) else [value])
    ]
    return urlencode(pairs, quote_via=quote)


DEADLINE = 60.0
"""Seconds that a call takes at most, whoever carries it, beyond the wait that it asks for."""

LARGEST_LONG_POLL = 5.0  # seconds that an answer may take beyond the wait we asked for


class AccessTokens:
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


class EngineTransport:
    """Sends one request, returns what `read` makes of the answer, or raises EngineFailure."""

    def __init__(
        self, caller: EngineCaller, tokens: AccessTokens, deadline: float = DEADLINE
    ) -> None:
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
        except (UnreadableResponse, ValueError, RecursionError) as error:
            raise EngineFailure(
                path, FailureKind.AMBIGUOUS, "unreadable", response.status
            ) from _named(error)

    async def send(
        self,
        method: str,
        path: str,
        site: str,
        *,
        body: object = None,
        query: Mapping[str, Any] | None = None,
        wait: float = 0.0,
    ) -> EngineResponse:
        """Send a request; a successful answer comes back whole, any other raises."""
        silence = wait + LARGEST_LONG_POLL if wait else 0.0
        return await self._answer(self._request(method, path, site, body, query, silence))

    async def forward(
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
            raise EngineFailure(path, FailureKind.PERMANENT, "unreadable") from None

    async def get_as_browser(self, path: str, cookies: str, *, unattended: bool) -> EngineResponse:
        """Read in the name of a browser that sent these cookies: no token of ours goes along."""
        headers = {"cookie": cookies, "accept": "application/json"}
        if unattended:
            headers["x-unattended"] = "1"
        return await self._answer(EngineRequest("GET", path, headers))

    async def _ask(self, request: EngineRequest) -> EngineResponse:
        """
        Have a request carried; raise `no_answer` where that takes longer than DEADLINE.

        The service may have done what was asked: the failure is ambiguous, and the call, being
        idempotent, is repeated.
        """
        try:
            async with asyncio.timeout(self._deadline + request.wait):
                return await self._caller.send(request)
        except TimeoutError:
            raise no_answer(request.path) from None

    async def _answer(self, request: EngineRequest) -> EngineResponse:
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
    ) -> EngineRequest:
        headers = {TOKEN_HEADER: self.tokens.of(site), "accept": "application/json"}
        if body is None:
            return EngineRequest(method, path, headers, None, query, silence)
        headers["content-type"] = "application/json"
        return EngineRequest(method, path, headers, to_json(body), query, silence)


def _value(response: EngineResponse) -> object:
    """Read JSON; what is not plain UTF-8 more tolerantly. Raises ValueError."""
    if not response.content:
        return None
    try:
        return from_json(response.content)
    except ValueError:
        return response.json()


def failure_of(call: str, response: EngineResponse) -> EngineFailure:
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
    return error if isinstance(error, UnreadableResponse) else None


def omit_none(**options: Any) -> dict[str, Any]:
    """Keep the options that were given."""
    return {name: value for name, value in options.items() if value is not None}
