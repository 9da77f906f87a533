"""
One call over HTTP: the token of the site, the answer as a value, failures classified.

The only file here that touches httpx. Knows no endpoint.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

import httpx
from pydantic_core import from_json, to_json

from bridge.contract import TOKEN_HEADER
from bridge.engine_client.classification import OK, classify, code_of, retry_after
from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.replies import Unreadable
from bridge.queue.states import Failure

T = TypeVar("T")

NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
NEVER_VALID = (httpx.UnsupportedProtocol, httpx.InvalidURL, httpx.TooManyRedirects)

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

    def __init__(self, http: httpx.AsyncClient, tokens: Tokens) -> None:
        """Take an opened client whose base address is the service's."""
        self._http = http
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
            raise EngineFailure(
                path, Failure.AMBIGUOUS, "unreadable", response.status_code
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
    ) -> httpx.Response:
        """Send a request; a successful answer comes back whole, any other raises."""
        request = self._http.build_request(
            method,
            path,
            params=query,
            content=None if body is None else to_json(body),
            headers=self._headers(site, has_body=body is not None),
        )
        if wait:
            request.extensions["timeout"]["read"] = wait + LARGEST_LONG_POLL
        return await self._answer(request, path)

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
        request = self._http.build_request(
            method,
            path,
            params=query,
            content=None if body is None else to_json(body),
            headers=self._headers(site, has_body=body is not None),
        )
        response = await self._exchange(request, path)
        try:
            return response.status_code, response.json() if response.content else None
        except (ValueError, RecursionError):
            raise EngineFailure(path, Failure.PERMANENT, "unreadable") from None

    async def visit(self, path: str, cookies: str, *, unattended: bool) -> httpx.Response:
        """Read in the name of a browser that sent these cookies: no token of ours goes along."""
        headers = {"cookie": cookies, "accept": "application/json"}
        if unattended:
            headers["x-unattended"] = "1"
        return await self._answer(self._http.build_request("GET", path, headers=headers), path)

    async def _answer(self, request: httpx.Request, path: str) -> httpx.Response:
        response = await self._exchange(request, path)
        if response.status_code in OK:
            return response
        raise failure_of(path, response)

    async def _exchange(self, request: httpx.Request, path: str) -> httpx.Response:
        try:
            return await self._http.send(request)
        except NOT_SENT:
            raise EngineFailure(path, Failure.TRANSIENT, "unreachable") from None
        except NEVER_VALID:
            raise EngineFailure(path, Failure.PERMANENT, "bad_address") from None
        except httpx.HTTPError:
            raise EngineFailure(path, Failure.AMBIGUOUS, "no_answer") from None

    def _headers(self, site: str, *, has_body: bool) -> dict[str, str]:
        headers = {TOKEN_HEADER: self.tokens.of(site), "accept": "application/json"}
        return headers | ({"content-type": "application/json"} if has_body else {})


def _value(response: httpx.Response) -> object:
    """Read JSON; what is not plain UTF-8 as tolerantly as httpx does. Raises ValueError."""
    if not response.content:
        return None
    try:
        return from_json(response.content)
    except ValueError:
        return response.json()


def failure_of(call: str, response: httpx.Response) -> EngineFailure:
    """Classify an answer that is not a success."""
    try:
        problem = response.json()
    except (ValueError, RecursionError):
        problem = None
    status, code = response.status_code, code_of(problem, response.status_code)
    business = response.headers.get("x-error-class") == "business"
    after = retry_after(response.headers.get("retry-after"), datetime.now(UTC))
    return EngineFailure(call, classify(status, code, business=business), code, status, after)


def _named(error: Exception) -> Exception | None:
    """Keep a cause that names places; a decoder's own error quotes the document."""
    return error if isinstance(error, Unreadable) else None
