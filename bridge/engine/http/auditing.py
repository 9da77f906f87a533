"""
Who asked for what, for the audit trail: the caller, the address, the request's id.

Makes deeds and decides nothing; neither patients' data nor secrets get into one.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from fastapi import Request

from bridge.engine.http.state import engine_of
from bridge.engine.service.audit import Deed, Outcome
from bridge.engine.service.caller import Caller


def deed_of(
    request: Request,
    action: str,
    site_id: str | None = None,
    report_id: str | None = None,
    *,
    account_id: int | None = None,
    outcome: Outcome = Outcome.SUCCESS,
    **details: Any,
) -> Deed:
    """Return a deed of a request's caller, or of `account_id` where a session acts."""
    caller: Caller | None = getattr(request.state, "caller", None)
    return Deed(
        action,
        site_id,
        report_id,
        account_id if caller is None else caller.account_id,
        None if caller is None else caller.token_id or None,
        outcome,
        {**details, **origin(request)},
    )


def origin(request: Request) -> dict[str, str]:
    """Return where a request came from, and the id that its answer bears."""
    return {
        "client": engine_of(request).client(request),
        "request": getattr(request.state, "request_id", ""),
    }


def reading_of(
    request: Request, action: str, sites: Iterable[str], reports: Sequence[tuple[str, str]]
) -> list[Deed]:
    """Return one deed for each site that was read; `reports` are (site, report) pairs."""
    deeds = []
    for site_id in dict.fromkeys(sites):
        here = list(dict.fromkeys(report for site, report in reports if site == site_id))
        if len(here) == 1:
            deeds.append(deed_of(request, action, site_id, here[0]))
        else:
            deeds.append(deed_of(request, action, site_id, reports=here))
    return deeds


def refused(request: Request, action: str, **details: Any) -> None:
    """Note an attempt that was turned away; like attempts of one moment are counted as one."""
    deed = deed_of(request, action, outcome=Outcome.REFUSED, path=_route(request), **details)
    engine_of(request).journal.note([deed])


def _route(request: Request) -> str:
    """Name the route without what was asked: an address may hold identifiers."""
    route = request.scope.get("route")
    return str(getattr(route, "path", ""))
