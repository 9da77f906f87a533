"""
Audit events of HTTP requests: caller, client address, request id, action and target.

No event contains patient data or secrets.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fastapi import Request

from bridge.audit.events import AuditEvent, AuditOrigin, Outcome, command_event
from bridge.audit.route_actions import ENGINE, action_of
from bridge.email import is_email
from bridge.engine.http.engine_state import engine_of
from bridge.engine.service.caller import Caller
from bridge.web.bodies import SAFE_METHODS

_MAX_SITE = 128  # characters
_MAX_ACCOUNT = 20  # digits of an account id


def audit_event(
    request: Request,
    action: str,
    site_id: str | None = None,
    report_id: str | None = None,
    *,
    account_id: int | None = None,
    outcome: Outcome = Outcome.SUCCESS,
    target: tuple[str, str] | None = None,
    **details: Any,
) -> AuditEvent:
    """Return an audit event of the caller, or of `account_id` for a request of a session."""
    if engine_of(request).operator:
        return command_event(
            action,
            site_id=site_id,
            report_id=report_id,
            outcome=outcome,
            details=details,
            target=target,
        )
    caller: Caller | None = getattr(request.state, "caller", None)
    return AuditEvent(
        action,
        site_id,
        report_id,
        account_id if caller is None else caller.account_id,
        None if caller is None else caller.token_id or None,
        outcome,
        {**details, **request_origin(request)},
        actor="" if caller is None else caller.email or ("service" if caller.service else ""),
        origin=AuditOrigin.APP if caller is None or not caller.token_id else AuditOrigin.API,
        source=engine_of(request).client(request),
        target=target,
    )


def request_origin(request: Request) -> dict[str, str]:
    """Return the client address and the id of a request."""
    return {
        "client": engine_of(request).client(request),
        "request": getattr(request.state, "request_id", ""),
    }


def access_events(
    request: Request, action: str, sites: Iterable[str], reports: Sequence[tuple[str, str]]
) -> list[AuditEvent]:
    """Return one audit event for each site that was read; `reports` are (site, report) pairs."""
    audit_events = []
    for site_id in dict.fromkeys(sites):
        site_reports = list(dict.fromkeys(report for site, report in reports if site == site_id))
        if len(site_reports) == 1:
            audit_events.append(audit_event(request, action, site_id, site_reports[0]))
        else:
            audit_events.append(audit_event(request, action, site_id, reports=site_reports))
    return audit_events


def record_refusal(request: Request, action: str, **details: Any) -> None:
    """Record a refused request; equal refusals within a short time become one event."""
    event = audit_event(request, action, outcome=Outcome.REFUSED, path=_route(request), **details)
    request.state.refusal_recorded = True
    engine_of(request).audit_buffer.add([event])


def record_refused_request(request: Request, code: str, *, forbidden: bool) -> None:
    """
    Record a refused change or a forbidden request, unless `record_refusal` has recorded it.

    A request that was refused before its use case started has the action of its route.
    """
    state = request.state
    harmless = request.method in {*SAFE_METHODS, "OPTIONS"} and not forbidden
    if harmless or getattr(state, "refusal_recorded", False):
        return
    page = getattr(state, "report_page", None)
    if page is None and getattr(state, "caller", None) is None:
        return  # not authenticated: the authentication records its own refusals
    route_action = (action_of(ENGINE, request.scope, "-"), _site_in_path(request), None)
    action, site_id, target = getattr(state, "audited", route_action)
    target = target or _person_in_path(request) or getattr(state, "person", None)
    account_id = None if page is None else page.session.account_id
    report_id = None if page is None else page.session.report_id
    event = audit_event(
        request,
        action,
        site_id or (None if page is None else page.session.site_id),
        report_id,
        account_id=account_id,
        outcome=Outcome.REFUSED,
        target=target,
        code=code,
        **({} if engine_of(request).operator else {"path": _route(request)}),
    )
    engine_of(request).audit_buffer.add([event])


def note_person(request: Request, body: Any) -> None:
    """
    Note the person whom the body of an administrative request names.

    If the request is refused before its use case starts, the audit event names this person.
    """
    if isinstance(body, Mapping):
        email, account = body.get("email"), body.get("accountId")
        if isinstance(email, str) and is_email(email):
            request.state.person = ("user", email)
        elif isinstance(account, str) and account.isascii() and account.isdecimal():
            request.state.person = ("account", account[:_MAX_ACCOUNT])


def _person_in_path(request: Request) -> tuple[str, str] | None:
    email = str(request.path_params.get("email", ""))
    return ("user", email) if is_email(email) else None


def _site_in_path(request: Request) -> str | None:
    site_id = str(request.path_params.get("site_id", ""))
    return site_id if 0 < len(site_id) <= _MAX_SITE and site_id.isprintable() else None


def _route(request: Request) -> str:
    """Return the path template of the route; the path itself may contain identifiers."""
    route = request.scope.get("route")
    return str(getattr(route, "path", ""))
