"""
Calls of use cases by routes: check the role, execute, record the audit event, in one transaction.

A request that repeats an Idempotency-Key gets the stored response and changes nothing.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from fastapi import Request
from sqlalchemy import Connection
from sqlmodel import Session
from starlette.responses import JSONResponse, Response

from bridge.contract import OrderKey
from bridge.contract.errors import ErrorCode
from bridge.contract.requests import OrderIdentity
from bridge.engine.errors import EngineError
from bridge.engine.http.engine_state import engine_of
from bridge.engine.http.requests.audit_events import access_events, audit_event
from bridge.engine.launch import ResponseWarning, warnings_header
from bridge.engine.records.tables import Report
from bridge.engine.service.caller import Caller, require_administrator
from bridge.engine.service.idempotency import (
    RepeatableRequest,
    StoredResponse,
    find_response,
    store_response,
)
from bridge.engine.service.sites.audit_states import StateReader
from bridge.engine.service.sites.site_settings import TIME_ZONES
from bridge.engine.service.work import ActorRef, Work

Result = TypeVar("Result")

_KEY = re.compile(r"[\x21-\x7e]{1,255}")


@dataclass(frozen=True, slots=True)
class RequestSite:
    """The site that a request is about, and the location within it."""

    site_id: str
    location: str = ""
    pointer: str = field(default="/SiteLocation", compare=False)  # JSON pointer of the location


@dataclass(frozen=True, slots=True)
class ReportResult:
    """A changed report, the JSON body of the response (None: no body), and warnings."""

    report: Report | None
    body: Any = None
    warnings: tuple[ResponseWarning, ...] = ()


@dataclass(frozen=True, slots=True)
class CommittedRefusal:
    """A refusal whose changes are committed. It is not stored: a repetition is executed again."""

    error: EngineError


def site_of(identity: OrderIdentity, within: str = "/clinicalInfo/") -> RequestSite:
    """Return the site of an order; `within` is the order's place in the request."""
    return RequestSite(identity.SiteID, identity.SiteLocation, f"{within}SiteLocation")


def order_id_of(identity: OrderIdentity) -> OrderKey:
    return OrderKey(identity.SiteID, identity.PatientMRN, identity.Accession)


def zone_of(name: str | None) -> ZoneInfo | None:
    """Return a time zone by its IANA name, None for an empty name; raise 400."""
    if name is None or not name.strip():
        return None
    if name not in TIME_ZONES:
        message = "is not an IANA time zone"
        raise EngineError(
            ErrorCode.BAD_ZONE, f"timeZone {message}", errors=[("/timeZone", message)]
        )
    return ZoneInfo(name)


def actor_of(caller: Caller) -> ActorRef:
    """Return the actor of a caller, for a unit of work."""
    return ActorRef(caller.account_id, caller.token_id or None)


async def read_as_administrator(
    request: Request,
    action: str,
    sites: Sequence[RequestSite],
    reading: Callable[[Session], Result],
    *,
    shown: Callable[[Result], Sequence[tuple[str, str]]] = lambda _: (),
    unrecorded: bool = False,
) -> Result:
    """
    Read as an administrator of all `sites`, and record the access.

    `shown` returns the (site, report) pairs that were read. `unrecorded`: do not record the access,
    because a program polls.
    """
    caller: Caller = request.state.caller
    site_ids = list(dict.fromkeys(site.site_id for site in sites))
    request.state.audited = (action, site_ids[0] if len(site_ids) == 1 else None, None)

    def check_and_read(session: Session) -> Result:
        for site in dict.fromkeys(sites):
            _require(session.connection(), caller, site)
        return reading(session)

    engine = engine_of(request)
    result = await engine.work.read_session(check_and_read)
    if not unrecorded and not engine.operator:
        engine.audit_buffer.add(access_events(request, action, site_ids, shown(result)))
    return result


async def read_site(
    request: Request, action: str, site_id: str, reading: Callable[[Connection, str], Result]
) -> Result:
    """Read something of a site as its administrator, and record the access."""
    site = RequestSite(site_id)
    return await read_as_administrator(
        request, action, [site], lambda session: reading(session.connection(), site_id)
    )


async def require_site_administrator(request: Request, site: RequestSite) -> None:
    """Raise 403 or 404 unless the caller administers the site: for checks before costly work."""
    caller: Caller = request.state.caller
    await engine_of(request).work.read(lambda connection: _require(connection, caller, site))


def _require(connection: Connection, caller: Caller, site: RequestSite) -> None:
    require_administrator(connection, caller, site.site_id, site.location, site.pointer)


async def change_as_administrator(
    request: Request,
    action: str,
    site: RequestSite,
    apply: Callable[[Work], Any],
    *,
    target: tuple[str, str] | None = None,
    state: StateReader | None = None,
    command: Mapping[str, Any] = MappingProxyType({}),
) -> Response:
    """
    Change something as an administrator of the site; respond with 200.

    `apply` returns the changed report (no body), the JSON of the body, both with warnings
    (`ReportResult`), or a refusal that is raised after the commit. `state` reads the audited
    members before and after the change. `command` are further details of the event of a command.
    """
    engine, caller = engine_of(request), request.state.caller
    request.state.audited = (action, site.site_id, target)
    repeat = await _repeat_of(request, caller)

    def check_and_apply(work: Work) -> StoredResponse:
        _require(work.connection, caller, site)
        if repeat is not None:
            engine.work.database.serialize(work.connection, repeat.name)
            if stored := find_response(work.connection, engine.keys, repeat):
                return stored
        before = None if state is None else state(work.connection)
        result = apply(work)
        work.flush()
        if state is not None:
            work.audit_members |= {"before": before, "after": state(work.connection)}
        done = _report_result(result)
        warnings = [warning.audit_members() for warning in done.warnings]
        details: dict[str, Any] = {"warnings": warnings} if warnings else {}
        details |= command if engine.operator else {}
        report_id = done.report.report_id if done.report else None
        event = audit_event(request, action, site.site_id, report_id, target=target, **details)
        work.audit(replace(event, **work.audit_members))
        response = StoredResponse(done.body, warnings_header(done.warnings))
        if repeat is not None and not isinstance(done.body, CommittedRefusal):
            store_response(work.connection, engine.keys, repeat, response, work.now)
        return response

    answer: StoredResponse = await engine.work.change(
        actor_of(caller), engine.clock(), check_and_apply
    )
    if isinstance(answer.body, CommittedRefusal):
        raise answer.body.error
    headers = {"X-Warnings": answer.warnings} if answer.warnings else None
    if answer.body is None:
        return Response(headers=headers)
    return JSONResponse(answer.body, headers=headers)


async def change_report(
    request: Request,
    action: str,
    identity: OrderIdentity,
    apply: Callable[[Work, OrderKey], Any],
    *,
    within: str = "/clinicalInfo/",
) -> Response:
    """Change the report of one order; `within` is the order's place in the request body."""
    order_id, site = order_id_of(identity), site_of(identity, within)
    return await change_as_administrator(request, action, site, lambda work: apply(work, order_id))


def _report_result(result: Any) -> ReportResult:
    if isinstance(result, ReportResult):
        return result
    return ReportResult(result) if isinstance(result, Report) else ReportResult(None, result)


async def _repeat_of(request: Request, caller: Caller) -> RepeatableRequest | None:
    key = request.headers.get("idempotency-key")
    if key is None or not caller.token_id:  # only tokens may repeat a request
        return None
    if not _KEY.fullmatch(key):
        detail = "the Idempotency-Key is not 1 to 255 visible ASCII characters"
        raise EngineError(ErrorCode.INVALID_REQUEST, detail)
    digest = hashlib.sha256(await request.body()).hexdigest()
    return RepeatableRequest(key, caller.token_id, request.url.path, digest)
