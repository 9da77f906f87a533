"""
The checks of every API request before its route: token, quota, scope, size, syntax.

The order is 401, 429, 403, 413, 400, so that a caller without a token learns nothing from the later
checks. The use cases check the role on a site.

Some routes check which page sent a request: a frame, a page of this service, or a page of another
site. Browsers name it in headers that a page cannot set (Fetch Metadata, `Origin`, the origin in
`Referer`). A request without these headers does not come from a page.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from itertools import chain
from typing import Any
from urllib.parse import parse_qsl

from fastapi import APIRouter, Request, Response
from typing_extensions import override

from bridge.contract import TOKEN_HEADER
from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.http.engine_state import EngineState, engine_of, is_loopback
from bridge.engine.http.report_page import authenticate_page
from bridge.engine.http.requests.audit_events import note_person, record_refusal
from bridge.engine.http.requests.response_bodies import problems, unauthorized
from bridge.engine.service.caller import Caller, TokenScope
from bridge.engine.settings import SizeLimits
from bridge.network_source import source_of, split_origin
from bridge.quotas import Allowance
from bridge.web.bodies import (
    BodyTooLarge,
    BoundedRequest,
    BoundedRoute,
    BudgetExhausted,
    TooManyValues,
    is_in_process,
    is_own_page,
)
from parsers.limits import DocumentRefused


def is_framed(request: Request) -> bool:
    """True if the browser loads this page into a frame."""
    return request.headers.get("sec-fetch-dest", "") in ("iframe", "frame", "embed", "object")


def is_prefetch(request: Request) -> bool:
    """True if the browser only prefetches the page: the request must have no effect."""
    purpose = request.headers.get("sec-purpose", "") + request.headers.get("purpose", "")
    return "prefetch" in purpose or request.method == "HEAD"


def prefetched() -> Response:
    return Response(status_code=204, headers={"Cache-Control": "no-store"})


def framing_origin(request: Request) -> str:
    """Return the origin of the page that frames this one; empty if the browser does not send it."""
    scheme, host = split_origin(request.headers.get("referer", ""))
    return f"{scheme}://{host}" if is_framed(request) and host else ""


def is_framed_by_other_site(request: Request) -> bool:
    """True if a page of another site loads this page into a frame."""
    return is_framed(request) and request.headers.get("sec-fetch-site") in (
        "cross-site",
        "same-site",
    )


def is_same_origin(engine: EngineState, request: Request) -> bool:
    """True if a page of this service, or the user's address bar, sent the request."""
    own = request.headers.get("host", "").lower(), split_origin(engine.base_url(request))[1]
    is_typed = request.headers.get("sec-fetch-site") == "none"
    return is_typed or is_own_page(request.headers, *own)


def is_cross_site(engine: EngineState, request: Request) -> bool:
    """True if a page of another site sent the request; programs send no such headers."""
    from_browser = "sec-fetch-site" in request.headers or "origin" in request.headers
    return from_browser and not is_same_origin(engine, request)


def require_same_origin(engine: EngineState, request: Request) -> None:
    """Raise 403 unless a page of this service sent the request."""
    if not is_same_origin(engine, request):
        detail = "this request did not come from a page of this service"
        raise EngineError(ErrorCode.FOREIGN_ORIGIN, detail)


MAX_TOKEN = 512
MAX_FORM_BYTES = 8192
SMALL_BODY = 4 * 2**20
"""Bytes of a request that names orders: 500 orders with identifiers of maximum length."""
TEXT_BODY = 20 * 2**20
"""Bytes of a request with a report's text or a site's code map, as JSON."""
SINGLE_VALUED = ("SiteID", "SiteLocation", "PatientMRN", "Accession", "prelimGroup", "prelimTag")
"""Query parameters with a single value; two different values are refused as ambiguous."""


class QuotaName(StrEnum):
    """The quota that a route consumes."""

    READS = "reads"
    LAUNCHES = "launches"
    EXPORTS = "exports"


class StrictRequest(BoundedRequest):
    """A request whose body is read within limits and parsed as strict JSON."""

    @override
    def parse(self, body: bytes) -> Any:
        try:
            return super().parse(body)
        except DocumentRefused as refusal:
            reason = refusal.reason
            raise EngineError(ErrorCode.INVALID_JSON, reason, errors=[("", reason)]) from None


@contextmanager
def bounded_request(request: Request, limit: int) -> Iterator[StrictRequest]:
    """Yield a request that reads its body within a limit; raise 413, or 503 for the budget."""
    try:
        with StrictRequest(request, limit) as strict:
            yield strict
    except TooManyValues as refusal:
        raise EngineError(ErrorCode.TOO_MANY_VALUES, str(refusal)) from None
    except BodyTooLarge as refusal:
        raise EngineError(ErrorCode.TOO_LARGE, str(refusal)) from None
    except BudgetExhausted as refusal:
        headers = {"Retry-After": "1"}
        raise EngineError(ErrorCode.OVERLOADED, str(refusal), headers=headers) from None


async def read_form(request: Request) -> dict[str, str]:
    """Read a form of an unauthenticated user; raise 413 or 400."""
    with bounded_request(request, MAX_FORM_BYTES) as small:
        body = await small.body()
    try:
        form = dict(parse_qsl(body.decode("utf-8"), max_num_fields=10))
    except ValueError:
        raise EngineError(ErrorCode.INVALID_REQUEST, "not a form") from None
    if any("\x00" in text for text in chain.from_iterable(form.items())):
        raise EngineError(ErrorCode.INVALID_REQUEST, "the form contains a NUL character")
    return form


class EngineRoute(BoundedRoute):
    """A route of the engine; its body, if there is one, is JSON."""

    body_limit: int | None = TEXT_BODY
    """Bytes of a body; the settings limit it further, or alone (None)."""

    def max_body_bytes(self, sizes: SizeLimits) -> int:
        return sizes.body if self.body_limit is None else min(sizes.body, self.body_limit)

    @override
    def bounded(self, request: Request) -> AbstractContextManager[StrictRequest]:
        return bounded_request(request, self.max_body_bytes(engine_of(request).settings.sizes))

    @override
    async def read_body(self, request: StrictRequest) -> None:
        await require_json_body(request)


class GuardedRoute(EngineRoute):
    """A route that requires an access token; subclasses set the quota and the scope."""

    quota = QuotaName.READS
    scope = TokenScope.READ
    body_limit: int | None = SMALL_BODY

    @override
    async def admit(self, request: Request) -> None:
        engine = engine_of(request)
        caller = request.state.caller = await authenticate(engine, request)
        _charge_quota(engine, caller, self.quota, request)
        if not caller.permits(self.scope):
            raise EngineError(ErrorCode.FORBIDDEN)


class WriteRoute(GuardedRoute):
    """A route that changes a report or an order."""

    scope = TokenScope.WRITE


class FileRoute(WriteRoute):
    body_limit = None


class LaunchRoute(GuardedRoute):
    """A route that launches reports or issues session links; a launch may carry files."""

    quota = QuotaName.LAUNCHES
    scope = TokenScope.LAUNCH
    body_limit = None


class ExportRoute(GuardedRoute):
    quota = QuotaName.EXPORTS


class AdminRoute(GuardedRoute):
    """A route that administers sites."""

    scope = TokenScope.ADMIN
    body_limit = TEXT_BODY

    @override
    async def read_body(self, request: StrictRequest) -> None:
        await super().read_body(request)
        if await request.body():
            note_person(request, await request.json())


class SessionRoute(EngineRoute):
    """A route of the report page; it requires the session of an opened report."""

    @override
    async def admit(self, request: Request) -> None:
        request.state.report_page = await authenticate_page(request)


class RecordingRoute(SessionRoute):
    """A route of the report page whose body is a sound recording."""

    @override
    def max_body_bytes(self, sizes: SizeLimits) -> int:
        return sizes.recording

    @override
    async def read_body(self, request: StrictRequest) -> None:
        await request.body()


def session_router(route: type[SessionRoute] = SessionRoute) -> APIRouter:
    """Return a router of the report page."""
    return APIRouter(
        prefix="/reporting/api/session",
        tags=["Report page"],
        route_class=route,
        responses=problems(500),
    )


async def authenticate(engine: EngineState, request: Request) -> Caller:
    """Return the caller of the request's token; raise 401, or 429 after too many failures."""
    if engine.operator:
        return Caller(0, None, engine.operator, service=True)
    secret = request.headers.get(TOKEN_HEADER, "")
    # The bridge in this process was admitted at the start.
    if engine.service and is_in_process(request.scope) and secret == engine.settings.service_token:
        return engine.service
    caller = await engine.authenticate(secret) if 0 < len(secret) <= MAX_TOKEN else None
    if caller is None:
        record_refusal(request, "token", code="unauthorized" if secret else "no_token")
        count_failed_token(engine, request)
        raise unauthorized()
    return caller


def count_failed_token(engine: EngineState, request: Request) -> None:
    """Count an unknown token against the IP address of the client; raise 429 for too many."""
    client = engine.client(request)
    if is_loopback(client):
        return
    quota = engine.settings.rates.failed_authentications
    _enforce(engine.quotas.take("authentication", source_of(client), quota))


def _charge_quota(engine: EngineState, caller: Caller, name: QuotaName, request: Request) -> None:
    if caller.service:
        return
    quota = getattr(engine.settings.rates, name.value)
    allowance = engine.quotas.take(name.value, str(caller.token_id), quota)
    if allowance is not None:
        request.state.headers = allowance.headers()
    _enforce(allowance)


def consume_quota(request: Request, name: QuotaName, count: int) -> bool:
    """Consume several units of a quota; return False, and consume none, if fewer are left."""
    engine, caller = engine_of(request), request.state.caller
    if caller.service:
        return True
    policy = (name.value, str(caller.token_id), getattr(engine.settings.rates, name.value))
    next_unit = engine.quotas.peek(*policy)
    if next_unit is not None and not (next_unit.granted and next_unit.remaining + 1 >= count):
        return False
    engine.quotas.take(*policy, count)
    return True


def _enforce(allowance: Allowance | None) -> None:
    if allowance is None or allowance.granted:
        return
    detail = f"more than {allowance.quota.count} requests in {allowance.quota.seconds} seconds"
    raise EngineError(ErrorCode.TOO_MANY_REQUESTS, detail, headers=allowance.headers())


async def require_json_body(request: StrictRequest) -> None:
    """Raise 400 unless the query is unambiguous, and a body is JSON and declared as JSON."""
    _check_query(request)
    if not await request.body():
        return
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json" and not media_type.endswith("+json"):
        raise EngineError(ErrorCode.NOT_JSON)
    await request.json()


def _check_query(request: Request) -> None:
    for name in SINGLE_VALUED:
        if len(set(request.query_params.getlist(name))) > 1:
            detail = "a query parameter has several values"
            raise EngineError(ErrorCode.INVALID_REQUEST, detail, errors=[(name, "is repeated")])
