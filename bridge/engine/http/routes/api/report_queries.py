"""
`status`, `content`, `outside`, `structured-reports`, `site/prelims`, `changes` and `worklist`.

A long poll of the change feed holds no thread. A write of this process wakes it; on PostgreSQL a
write of any process does. It also polls from time to time.
"""

# ruff: noqa: N803  # the spelling of the interface reference

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from pydantic import AfterValidator, Field, StringConstraints
from sqlalchemy import Connection
from sqlmodel import Session
from starlette.responses import Response

from bridge.contract import ReportStatus
from bridge.contract.errors import ErrorCode
from bridge.contract.requests import (
    TAG_LENGTH,
    OptionalQueryText,
    OrderIdentity,
    QueryText,
    StatusBody,
)
from bridge.contract.responses import (
    ChangesResponse,
    ContentResponse,
    OutsideReportsResponse,
    PrelimsResponse,
    StatusAnswerBody,
    StatusRecordBody,
    StructuredReportsResponse,
    WaitingBody,
    WorklistResponse,
)
from bridge.engine.errors import EngineError
from bridge.engine.http.engine_state import EngineState, engine_of
from bridge.engine.http.requests.audit_events import access_events
from bridge.engine.http.requests.guard import GuardedRoute, QuotaName, consume_quota
from bridge.engine.http.requests.response_bodies import (
    FastJsonResponse,
    problems,
    unauthorized,
)
from bridge.engine.http.requests.use_cases import (
    RequestSite,
    order_id_of,
    read_as_administrator,
    site_of,
)
from bridge.engine.records.tables import Report
from bridge.engine.rules.order import Priority
from bridge.engine.rules.timestamps import iso
from bridge.engine.service import released_texts
from bridge.engine.service.accounts.tokens import still_valid
from bridge.engine.service.caller import Caller, administered_sites, require_administrator
from bridge.engine.service.change_feed import FeedPage, cursor_at, read_changes, require_cursor
from bridge.engine.service.report_status import query_status, read_report
from bridge.engine.service.reports.files import structured_reports
from bridge.engine.service.reports.outside import reports_of_patient
from bridge.engine.service.signing.prelims import list_waiting
from bridge.engine.service.work import ChangeEvent
from bridge.engine.service.worklist import ElsewhereFilter, Sort, WorklistQuery, read_worklist

_PageWithTexts = tuple[FeedPage, Mapping[str, Any]]
"""A page of changes, and the texts of its releases by report."""

router = APIRouter(prefix="/api", tags=["Reading"], route_class=GuardedRoute)

OptionalText = Annotated[str, Query(max_length=TAG_LENGTH)]


Site = Annotated[QueryText, Query(examples=["SITE1"])]


_CURSOR = 12 * TAG_LENGTH
"""Maximum characters of a cursor: a name of maximum length, escaped and in base64."""
MAX_TEXTS = 100
"""Maximum number of orders in a status request with texts."""
_MAX_NAMED = 64
"""Maximum number and characters of the unknown parameters that a problem names."""
Tags = Annotated[list[Annotated[str, StringConstraints(max_length=256)]], Field(max_length=50)]
"""Alternatives of a filter; all of them fit into a request line."""


def _day(text: str) -> str:
    """Return a day as YYYYMMDD, empty for a blank text."""
    day = text.strip()
    if not day:
        return ""
    try:
        return date.fromisoformat(day).isoformat().replace("-", "")
    except ValueError:
        message = "is not a day: YYYY-MM-DD or YYYYMMDD"
        raise ValueError(message) from None


Day = AfterValidator(_day)
_FILTERS = frozenset(
    {
        *("SiteID", "status", "PatientMRN", "Accession", "q", "StudyDate", "studyDateFrom"),
        *(
            "studyDateTo",
            "Modality",
            "SiteLocation",
            "priority",
            "reader",
            "reportedElsewhere",
            "sort",
            "limit",
            "cursor",
        ),
    }
)


def _refuse_unknown(request: Request) -> None:
    """Raise 400 for unknown query parameters: an ignored filter would mislead."""
    unknown = sorted(set(request.query_params) - _FILTERS)
    if unknown:
        message = "is no parameter of this endpoint"
        errors = [(name[:_MAX_NAMED], message) for name in unknown[:_MAX_NAMED]]
        detail = f"{errors[0][0]} {message}"
        raise EngineError(ErrorCode.INVALID_REQUEST, detail, errors=errors)


def _identity(
    SiteID: Site,
    PatientMRN: Annotated[QueryText, Query(examples=["MRN-1001"])],
    Accession: Annotated[QueryText, Query(examples=["ACC-2001"])],
    SiteLocation: OptionalQueryText = "",
) -> OrderIdentity:
    return OrderIdentity(
        SiteID=SiteID, SiteLocation=SiteLocation, PatientMRN=PatientMRN, Accession=Accession
    )


@router.post("/report/status", response_model=list[StatusAnswerBody], responses=problems())
async def status(body: StatusBody, request: Request) -> Response:
    """
    Return the status record of each report found, in the order of the request.

    With `texts`, the record of a signed report has the member `text`: its text and its signed
    addenda, as in the export. Each text counts as an export. If the export quota is not sufficient
    for all of them, no record has a `text`.
    """
    limit = engine_of(request).settings.sizes.status_list
    if len(body.clinicalInfo) > limit:
        detail = f"at most {limit} orders in one request"
        raise EngineError(ErrorCode.TOO_MANY_ORDERS, detail, pointer="/clinicalInfo")
    if body.texts and len(body.clinicalInfo) > MAX_TEXTS:
        detail = f"at most {MAX_TEXTS} orders in one request with texts"
        raise EngineError(ErrorCode.TOO_MANY_ORDERS, detail, pointer="/clinicalInfo")
    now = engine_of(request).clock()
    identities = [order_id_of(order) for order in body.clinicalInfo]
    sites = [
        site_of(order, f"/clinicalInfo/{index}/") for index, order in enumerate(body.clinicalInfo)
    ]

    def read(session: Session) -> tuple[list[StatusRecordBody], dict[str, dict[str, Any]]]:
        connection = session.connection()
        records = query_status(connection, identities, now)
        names = [record.report_id for record in records] if body.texts else []
        return records, released_texts.report_texts(connection, names)

    records, texts = await read_as_administrator(
        request,
        "status",
        sites,
        read,
        shown=lambda found: _pairs(found[0]),
        unrecorded=request.state.caller.service,
    )
    if not body.texts or not consume_quota(request, QuotaName.EXPORTS, len(texts)):
        return FastJsonResponse(records)
    exported = _pairs(status for status in records if status.report_id in texts)
    events = access_events(request, "export", (site for site, _ in exported), exported)
    engine_of(request).audit_buffer.add(events)
    return FastJsonResponse(
        [
            {**record.model_dump(mode="json"), "text": texts.get(record.report_id)}
            for record in records
        ]
    )


def _pairs(records: Iterable[StatusRecordBody]) -> list[tuple[str, str]]:
    """Return (site, report id) of each record."""
    return [(record.orders[0].site, record.report_id) for record in records]


@router.get("/report/content", response_model=ContentResponse, responses=problems())
async def content(
    identity: Annotated[OrderIdentity, Depends(_identity)], request: Request
) -> Response:
    """Return the report's plain text, without addenda."""
    order_id = order_id_of(identity)
    report = await read_as_administrator(
        request,
        "content",
        [site_of(identity, "")],
        lambda session: read_report(session, order_id),
        shown=lambda found: [(found.site_id, found.report_id)],
    )
    return FastJsonResponse(ContentResponse(content=report.content_text))


@router.get("/report/outside-reports", response_model=OutsideReportsResponse, responses=problems())
async def outside(
    identity: Annotated[OrderIdentity, Depends(_identity)], request: Request
) -> Response:
    """Return the reports of the patient that were not made here, with their versions and texts."""
    order_id = order_id_of(identity)

    def read(session: Session) -> tuple[Report, list[dict[str, Any]]]:
        report = read_report(session, order_id)
        return report, reports_of_patient(session, report)

    _, found = await read_as_administrator(
        request,
        "outside",
        [site_of(identity, "")],
        read,
        shown=lambda found: [(found[0].site_id, found[0].report_id)],
    )
    return FastJsonResponse({"reports": found})


@router.get(
    "/report/structured-reports", response_model=StructuredReportsResponse, responses=problems()
)
async def structured(
    identity: Annotated[OrderIdentity, Depends(_identity)], request: Request
) -> Response:
    """Return the titles and texts of the DICOM SR, dose reports and key objects of a report."""
    order_id = order_id_of(identity)

    def read(session: Session) -> tuple[Report, list[dict[str, Any]]]:
        report = read_report(session, order_id)
        return report, structured_reports(session, report)

    _, found = await read_as_administrator(
        request,
        "structured",
        [site_of(identity, "")],
        read,
        shown=lambda found: [(found[0].site_id, found[0].report_id)],
    )
    return FastJsonResponse({"reports": found})


@router.get("/report/site/prelims", response_model=PrelimsResponse, responses=problems())
async def prelims(
    SiteID: Site,
    prelimGroup: Annotated[QueryText, Query(examples=["Night"])],
    prelimTag: Annotated[QueryText, Query(examples=["Resident"])],
    request: Request,
    cursor: Annotated[str, Query(max_length=40, description="`next` of the page before")] = "",
) -> Response:
    """
    Return the reports that wait for review in a group and tag, the longest-waiting first.

    `reports` has at most 1,000 of them, and ends earlier if they have 5,000 orders. `next` is the
    cursor of the others; it is absent if there are none.
    """
    now = engine_of(request).clock()
    found = await read_as_administrator(
        request,
        "prelims",
        [RequestSite(SiteID)],
        lambda session: list_waiting(session, SiteID, prelimGroup, prelimTag, now, cursor),
        shown=lambda page: [(SiteID, one.record.report_id) for one in page.reports],
    )
    reports = [
        WaitingBody(
            report_id=waiting.record.report_id,
            orders=waiting.record.orders,
            user_email=waiting.record.user_email,
            prelim_at=iso(waiting.read_at),
        )
        for waiting in found.reports
    ]
    first = reports[0] if reports else None
    return FastJsonResponse(
        PrelimsResponse(
            report_id=first.report_id if first else None,
            orders=first.orders if first else (),
            user_email=first.user_email if first else None,
            reports=reports,
            next=found.next,
        )
    )


@router.get("/report/changes", response_model=ChangesResponse, responses=problems())
async def changes(
    request: Request,
    after: Annotated[
        int, Query(ge=0, lt=2**63, description="`cursor` of a page or of a change; 0: all")
    ] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    wait: Annotated[float, Query(ge=0, le=60)] = 0.0,
    SiteID: OptionalText = "",
    without: Annotated[
        list[ChangeEvent] | None,
        Query(max_length=len(ChangeEvent), description="events to leave out and not to wait for"),
    ] = None,
    texts: Annotated[
        bool, Query(description="add the text of each release; each text counts as an export")
    ] = False,
) -> Response:
    """
    Return the changes after a cursor in commit order; wait up to `wait` seconds for the first.

    409 `cursor_beyond_end` or `cursor_of_another_feed`: the database was restored or replaced after
    the cursor was issued. Read the feed again from 0.
    """
    page = await _wait_for_changes(
        request, after, limit, wait, SiteID.strip(), without or (), texts=texts
    )
    # The changes are sent as they were stored: those of an older release lack later members.
    changes = [{**change, "at": iso(change["at"])} for change in page.changes]
    return FastJsonResponse({"changes": changes, "cursor": page.cursor})


async def _wait_for_changes(
    request: Request,
    after: int,
    limit: int,
    seconds: float,
    site_id: str,
    without: Collection[str] = (),
    *,
    texts: bool = False,
) -> FeedPage:
    """
    Return the changes after a cursor; wait at most `seconds` for the first one.

    `without` names the events to leave out. With `texts` a release carries its text; it counts as
    an export in the quota and in the audit trail. Raise EngineError if the
    cursor belongs to another database.
    """
    engine, caller = engine_of(request), request.state.caller
    sites = None
    if site_id or not caller.service:
        sites = await engine.work.read(lambda connection: _sites(connection, caller, site_id))

    def read(connection: Connection, cursor: int, *, waited: bool) -> _PageWithTexts:
        if waited and caller is not engine.service:
            _require_still_permitted(connection, caller, site_id, sites)
        return _read(connection, sites, cursor, limit, without, texts=texts)

    with _counted(engine, caller):
        page, texts_by_report = await _read_when_changed(engine, read, after, seconds, without)
    if page.changes and not caller.service:
        shown = [(_site_of(change), str(change["reportId"])) for change in page.changes]
        engine.audit_buffer.add(
            access_events(request, "changes", (site for site, _ in shown), shown)
        )
    return _with_texts(request, page, texts_by_report) if texts_by_report else page


@contextmanager
def _counted(engine: EngineState, caller: Caller) -> Iterator[None]:
    """Count a reader that may wait; readers with the service token are not limited."""
    if caller.service:
        yield
        return
    name = f"token {caller.token_id}"
    engine.polls.require_room(name)
    with engine.polls.counted(name):
        yield


async def _read_when_changed(
    engine: EngineState,
    read: Callable[..., _PageWithTexts],
    after: int,
    seconds: float,
    without: Collection[str],
) -> _PageWithTexts:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    cursor, waited = after, False
    while True:
        notification = engine.work.changed.notification(without)
        change_mark = engine.work.change_mark()
        page, texts_by_report = await engine.work.read(partial(read, cursor=cursor, waited=waited))
        cursor = page.cursor
        left = deadline - loop.time()
        if page.changes or left <= 0 or engine.stopping:
            notification.cancel()
            return page, texts_by_report
        await engine.work.wait_for_change(notification, change_mark, left)
        waited = True


def _read(
    connection: Connection,
    sites: Collection[str] | None,
    cursor: int,
    limit: int,
    without: Collection[str],
    *,
    texts: bool,
) -> _PageWithTexts:
    after = require_cursor(connection, cursor)
    if texts:
        page, found = released_texts.read_with_texts(connection, sites, after, limit, without)
    else:
        page, found = read_changes(connection, sites, after, limit, without), {}
    reached = cursor if page.cursor == after else cursor_at(connection, page.cursor)
    return replace(page, cursor=reached), found


def _with_texts(request: Request, page: FeedPage, texts_by_report: Mapping[str, Any]) -> FeedPage:
    """Add the texts, unless the export quota is exhausted: then the reader exports each report."""
    if not consume_quota(request, QuotaName.EXPORTS, len(texts_by_report)):
        return page
    shown = [
        (_site_of(change), change["reportId"])
        for change in page.changes
        if change["reportId"] in texts_by_report
    ]
    audit_events = access_events(request, "export", (site for site, _ in shown), shown)
    engine_of(request).audit_buffer.add(audit_events)
    return replace(page, changes=released_texts.with_texts(page.changes, texts_by_report))


def _site_of(change: Mapping[str, Any]) -> str:
    return str(change["orders"][0]["SiteID"]) if change.get("orders") else ""


def _require_still_permitted(
    connection: Connection, caller: Caller, site_id: str, sites: Collection[str] | None
) -> None:
    """Raise 401 or 403 if the token was revoked during the wait, or the caller has lost a site."""
    if not still_valid(connection, caller):
        raise unauthorized()
    if sites is not None and not set(sites) <= set(_sites(connection, caller, site_id) or ()):
        raise EngineError(ErrorCode.FORBIDDEN)


def _sites(connection: Connection, caller: Caller, site_id: str) -> list[str] | None:
    """Return the sites that the caller may read, None for all; raise 403 for none."""
    if site_id:
        require_administrator(connection, caller, site_id)
        return [site_id]
    sites = administered_sites(connection, caller)
    if sites == []:
        raise EngineError(ErrorCode.FORBIDDEN)
    return sites


def _worklist_query(
    *,
    SiteID: Site,
    status: Annotated[list[ReportStatus] | None, Query()] = None,
    PatientMRN: OptionalText = "",
    Accession: OptionalText = "",
    q: Annotated[
        str, Query(max_length=TAG_LENGTH, description="Words of the patient, order or study")
    ] = "",
    StudyDate: Annotated[str, Day, Query(description="The day of the study")] = "",
    studyDateFrom: Annotated[str, Day, Query(description="The first day of the study")] = "",
    studyDateTo: Annotated[str, Day, Query(description="The last day of the study")] = "",
    Modality: Annotated[Tags | None, Query(description="One of these modalities")] = None,
    SiteLocation: Annotated[Tags | None, Query(description="One of these locations")] = None,
    priority: Annotated[
        list[Priority] | None,
        Query(
            max_length=len(Priority),
            description="One of these priorities (HL7 table 0485) is the most urgent of the "
            "orders; `R` includes orders without a priority",
        ),
    ] = None,
    reportedElsewhere: Annotated[
        ElsewhereFilter,
        Query(
            description="Orders that another system has reported: `only`, `included`, or by "
            "default those of a query that names an order or a patient"
        ),
    ] = ElsewhereFilter.UNNAMED,
    reader: Annotated[
        str,
        Query(max_length=TAG_LENGTH, description="E-mail address of the owner; `none`: no owner"),
    ] = "",
    sort: Annotated[
        Sort,
        Query(
            description="A minus sign reverses it; by the anchor order of a group. `priority`: the "
            "most urgent first, by the most urgent order of a group"
        ),
    ] = Sort.NEWEST_UPDATED,
    limit: Annotated[int, Query(ge=1, le=500, description="Items of a page")] = 100,
    cursor: Annotated[str, Query(max_length=_CURSOR, description="`next` of the page before")] = "",
) -> WorklistQuery:
    return WorklistQuery(
        site_id=SiteID,
        status=tuple(status or ()),
        mrn=PatientMRN.strip(),
        accession=Accession.strip(),
        text=q,
        study_from=StudyDate or studyDateFrom,
        study_to=StudyDate or studyDateTo,
        modalities=tuple(Modality or ()),
        locations=tuple(SiteLocation or ()),
        priorities=tuple(priority or ()),
        reader=reader.strip(),
        elsewhere=reportedElsewhere,
        sort=sort,
        limit=limit,
        cursor=cursor,
    )


@router.get("/worklist", response_model=WorklistResponse, responses=problems())
async def worklist(
    query: Annotated[WorklistQuery, Depends(_worklist_query)], request: Request
) -> Response:
    """
    Return a page of a site's reports, by default the latest change first.

    Days are written YYYY-MM-DD or YYYYMMDD. An unknown parameter is refused (400).
    """
    _refuse_unknown(request)
    now = engine_of(request).clock()
    page = await read_as_administrator(
        request,
        "worklist",
        [RequestSite(query.site_id)],
        lambda session: read_worklist(session, query, now),
        shown=lambda found: [(query.site_id, item["reportId"]) for item in found.items],
        unrecorded=request.state.caller.service,
    )
    return FastJsonResponse(page)
