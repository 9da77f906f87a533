"""
Transport: one call of the report service, with access token, deadline and classified failures.

An `EngineCaller` sends the request: `HttpCaller` to any service, `InProcessCaller` to our engine
in this process.
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

_SAFE: Final = "/?&=%:@!$'()*+,;~"  # characters of paths and queries, RFC 3986 §3.3, §3.4
_NOT_IN_HEADERS: Final = frozenset("\r\n\0")  # not allowed in header values, RFC 9110 §5.5


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """A request; `read_timeout` is in seconds, 0 for the default of the caller."""

    method: str
    path: str
    headers: Mapping[str, str]
    content: bytes | None = None
    query: Mapping[str, Any] | None = None
    read_timeout: float = 0.0


@dataclass(frozen=True, slots=True)
class EngineResponse:
    """A complete response; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def text(self) -> str:
        """The content as UTF-8 text."""
        return self.content.decode(errors="replace")

    def json(self) -> Any:
        """Parse the content as JSON in UTF-8, 16 or 32. Raises ValueError, RecursionError."""
        return json.loads(self.content)


class EngineCaller(Protocol):
    """Sends requests to one service."""

    async def send(self, request: EngineRequest) -> EngineResponse:
        """Return the response, also for an error status. Raises EngineFailure without one."""

    async def aclose(self) -> None:
        """Close all connections."""


def unreachable(path: str) -> EngineFailure:
    """Return the failure for a request that was not sent."""
    return EngineFailure(path, FailureKind.TRANSIENT, "unreachable")


def no_answer(path: str) -> EngineFailure:
    """Return the failure for a request without a response: its effect is unknown."""
    return EngineFailure(path, FailureKind.AMBIGUOUS, "no_answer")


def bad_address(path: str) -> EngineFailure:
    """Return the failure for an invalid address: retries cannot help."""
    return EngineFailure(path, FailureKind.PERMANENT, "bad_address")


def request_target(request: EngineRequest, base: str) -> str:
    """
    Return the quoted path and query of a request to the service at `base`.

    Raises EngineFailure for the URL of another service, and for a header with a line break.
    """
    path = quote(request.path.removeprefix(base), safe=_SAFE)
    if not path.startswith("/") or not _NOT_IN_HEADERS.isdisjoint(
        "".join(request.headers.values())
    ):
        raise bad_address(request.path)
    if request.query:
        path += ("&" if "?" in path else "?") + _query(request.query)
    return path


def _query(values: Mapping[str, Any]) -> str:
    """Encode a query; booleans as in JSON, lists as repeated parameters."""
    pairs = [
        (name, {True: "true", False: "false"}[each] if isinstance(each, bool) else each)
        for name, value in values.items()
        for each in (value if isinstance(value, list | tuple) else [value])
    ]
    return urlencode(pairs, quote_via=quote)


DEADLINE = 60.0
"""Seconds that a call may take, in addition to the `wait` that it requests."""

_LONG_POLL_MARGIN = 5.0  # seconds that a response may take in addition to the requested wait


class AccessTokens:
    """The access tokens of a service, by site."""

    def __init__(self, default: str = "", by_site: Mapping[str, str] | None = None) -> None:
        """`default` is used for sites without a token in `by_site`."""
        self._default = default
        self._by_site = dict(by_site or {})

    def of(self, site: str) -> str:
        """Return the token for a site; '' if there is none."""
        return self._by_site.get(site, self._default)

    def distinct(self) -> tuple[str, ...]:
        """Return one site for each different token ('' for the default token)."""
        seen = {token: site for site, token in reversed(self._by_site.items())}
        if self._default:
            seen = {self._default: "", **{t: s for t, s in seen.items() if t != self._default}}
        return tuple(seen.values())


class EngineTransport:
    """Sends requests with the site's token and turns errors into EngineFailure."""

    def __init__(
        self, caller: EngineCaller, tokens: AccessTokens, deadline: float = DEADLINE
    ) -> None:
        """`caller` sends the requests; `deadline` is in seconds."""
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
        """Send JSON and parse the JSON response by `read`; `wait` extends the deadline."""
        response = await self.send(method, path, site, body=body, query=query, wait=wait)
        try:
            return read(_parse_json(response))
        except (UnreadableResponse, ValueError, RecursionError) as error:
            raise EngineFailure(
                path, FailureKind.AMBIGUOUS, "unreadable", response.status
            ) from _safe_cause(error)

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
        """Send a request and return a successful response. Raises EngineFailure otherwise."""
        read_timeout = wait + _LONG_POLL_MARGIN if wait else 0.0
        return await self._require_success(
            self._request(method, path, site, body, query, read_timeout)
        )

    async def forward(
        self,
        method: str,
        path: str,
        site: str,
        *,
        body: object = None,
        query: Mapping[str, Any] | None = None,
    ) -> tuple[int, Any]:
        """Send JSON for a user; return status and body of the response, also of an error."""
        response = await self._send_in_time(self._request(method, path, site, body, query))
        try:
            return response.status, response.json() if response.content else None
        except (ValueError, RecursionError):
            raise EngineFailure(path, FailureKind.PERMANENT, "unreadable") from None

    async def get_as_browser(self, path: str, cookies: str, *, unattended: bool) -> EngineResponse:
        """Send a GET request with a browser's cookies and without an access token."""
        headers = {"cookie": cookies, "accept": "application/json"}
        if unattended:
            headers["x-unattended"] = "1"
        return await self._require_success(EngineRequest("GET", path, headers))

    async def _send_in_time(self, request: EngineRequest) -> EngineResponse:
        """
        Send a request; raise `no_answer` after the deadline.

        The failure is ambiguous, because the service may have executed the call. Calls are
        idempotent, and the queues repeat them.
        """
        try:
            async with asyncio.timeout(self._deadline + request.read_timeout):
                return await self._caller.send(request)
        except TimeoutError:
            raise no_answer(request.path) from None

    async def _require_success(self, request: EngineRequest) -> EngineResponse:
        response = await self._send_in_time(request)
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
        read_timeout: float = 0.0,
    ) -> EngineRequest:
        headers = {TOKEN_HEADER: self.tokens.of(site), "accept": "application/json"}
        if body is None:
            return EngineRequest(method, path, headers, None, query, read_timeout)
        headers["content-type"] = "application/json"
        return EngineRequest(method, path, headers, to_json(body), query, read_timeout)


def _parse_json(response: EngineResponse) -> object:
    """Parse JSON: the fast parser for UTF-8, else the tolerant one. Raises ValueError."""
    if not response.content:
        return None
    try:
        return from_json(response.content)
    except ValueError:
        return response.json()


def failure_of(call: str, response: EngineResponse) -> EngineFailure:
    try:
        problem = response.json()
    except (ValueError, RecursionError):
        problem = None
    status, code = response.status, code_of(problem, response.status)
    business = response.headers.get("x-error-class") == "business"
    after = retry_after(response.headers.get("retry-after"), datetime.now(UTC))
    return EngineFailure(call, classify(status, code, business=business), code, status, after)


def _safe_cause(error: Exception) -> Exception | None:
    """Return an error that only names a member; None for a decoder's, which quotes the document."""
    return error if isinstance(error, UnreadableResponse) else None


def omit_none(**options: Any) -> dict[str, Any]:
    """Return the options that are not None."""
    return {name: value for name, value in options.items() if value is not None}
