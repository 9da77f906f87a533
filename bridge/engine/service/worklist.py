"""
The worklist: a site's reports, filtered and sorted; open a report from it, assign it to a user.

The API reads it page by page. A cursor contains the sort value and key of the last report. A change
between two requests can move a report to another page: a client that reads page by page may miss
that report or get it twice. The application reads any range of rows, sorted by a column of the
anchor order, and the total number.

The rules of ownership are those of links: a Draft of another user is taken over only after the user
has confirmed.
"""

import base64
import binascii
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, case, func, or_
from sqlalchemy.orm import aliased, defer, load_only
from sqlmodel import Session, col, select

from bridge.contract import SIGNED, OrderKey, ReportStatus
from bridge.contract.errors import ErrorCode
from bridge.contract.responses import WorklistResponse
from bridge.email import canonical_email
from bridge.engine.errors import EngineError
from bridge.engine.records.tables import (
    Account,
    Addendum,
    FeedChange,
    PrelimRead,
    Report,
    ReportOrder,
    SiteMembership,
)
from bridge.engine.rules.lifecycle import AddendumState
from bridge.engine.rules.order import (
    PRIORITY_RANKS,
    ROUTINE_RANK,
    Priority,
    most_urgent,
    priority_code,
)
from bridge.engine.rules.patients import folded_name
from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.rules.timestamps import iso
from bridge.engine.service.accounts.users import find_member, get_user
from bridge.engine.service.caller import BrowserUser, account_role
from bridge.engine.service.change_feed import order_json
from bridge.engine.service.launch.link_visits import (
    LinkContext,
    OpenedReport,
    WindowOptions,
    open_locked,
)
from bridge.engine.service.launch.report_updates import assign_report, unassign_report
from bridge.engine.service.report_lookup import (
    follow_pointers,
    key_of,
    lock_report,
    lock_report_by_id,
)
from bridge.engine.service.report_status import orders_by_report, status_records
from bridge.engine.service.reports.elsewhere import is_hidden, marks_of
from bridge.engine.service.signing.prelims import may_own, newest_in
from bridge.engine.service.work import Work


class Sort(StrEnum):
    """Sort orders of the worklist; a minus sign means descending."""

    UPDATED = "updated"
    NEWEST_UPDATED = "-updated"
    CREATED = "created"
    NEWEST_CREATED = "-created"
    STUDY_DATE = "studyDate"
    NEWEST_STUDY_DATE = "-studyDate"
    PATIENT = "patient"
    PATIENT_BACKWARDS = "-patient"
    PRIORITY = "priority"
    LEAST_URGENT = "-priority"


_LISTED: Any = (
    *(Report.site_id, Report.owner_id),
    *(Report.created_at, Report.updated_at, Report.signed_at),
)
_LISTED_COLUMNS: Final = load_only(*_LISTED, raiseload=True)
"""The columns of a listed report. Its texts and signature can have megabytes and are not read."""

NOBODY = "none"
"""As reader: reports without an owner."""

_TAGS: Any = col(ReportOrder.tags)
_STUDY_DAY = func.substr(
    func.replace(func.coalesce(_TAGS["StudyDate"].as_string(), ""), "-", ""), 1, 8
)
"""The day of DICOM, HL7 and ISO dates; other formats are compared as text."""
_FIRST_DAY = "10000101"  # excludes orders without a study date
_ANCHOR = (col(ReportOrder.report_pk) == col(Report.pk)) & (col(ReportOrder.position) == 0)
_ANY_ORDER = aliased(ReportOrder)
_PRIORITY: Any = col(_ANY_ORDER.order_metadata)
_PRIORITY_RANK: Final = func.coalesce(
    select(
        func.min(
            case(
                dict(PRIORITY_RANKS),
                value=func.upper(func.trim(_PRIORITY["Priority"].as_string())),
                else_=ROUTINE_RANK,
            )
        )
    )
    .where(_ANY_ORDER.report_pk == Report.pk)
    .correlate(Report)
    .scalar_subquery(),
    ROUTINE_RANK,
)
"""The rank of the most urgent order of a report."""

_VALUES: Mapping[str, Any] = {
    "priority": _PRIORITY_RANK,
    "updated": col(Report.updated_at),
    "created": col(Report.created_at),
    "studyDate": func.coalesce(_STUDY_DAY, ""),
    "patient": func.coalesce(func.lower(_TAGS["PatientName"].as_string()), ""),
}
"""The sort values. Study date and patient are those of the anchor, the report's first order."""

MAX_WORDS = 20
"""Maximum number of words to search; each is compared with all orders of the site."""


class ElsewhereFilter(StrEnum):
    """Which orders that are reported elsewhere a list includes."""

    UNNAMED = ""  # none, unless the query names an order or a patient
    ONLY = "only"
    INCLUDED = "included"


@dataclass(frozen=True, slots=True)
class WorklistQuery:
    """
    A query of the worklist. Empty filters do not restrict. Routine priority includes none.

    `study_from` and `study_to` are days (YYYYMMDD), both included. `reader` is the owner's e-mail
    address, or `NOBODY`.
    """

    site_id: str
    status: Collection[ReportStatus] = ()
    mrn: str = ""
    accession: str = ""
    text: str = ""
    study_from: str = ""
    study_to: str = ""
    modalities: Collection[str] = ()
    locations: Collection[str] = ()
    priorities: Collection[Priority] = ()
    reader: str = ""
    elsewhere: ElsewhereFilter = ElsewhereFilter.UNNAMED
    sort: Sort = Sort.NEWEST_UPDATED
    limit: int = 100
    cursor: str = ""


def read_worklist(session: Session, query: WorklistQuery, now: int) -> WorklistResponse:
    """Return one page; raise EngineError for an invalid cursor or one of another sort order."""
    value = _VALUES[query.sort.removeprefix("-")]
    statement = select(Report, value).options(_LISTED_COLUMNS)
    statement = statement.where(Report.site_id == query.site_id)
    if not _sorts_by_number(query.sort):
        statement = statement.join(ReportOrder, _ANCHOR, isouter=True)
    for condition in _filters(session, query):
        statement = statement.where(condition)
    if query.cursor:
        statement = statement.where(_after_cursor(query, value))
    descending = query.sort.startswith("-")
    order = (value.desc(), col(Report.pk).desc()) if descending else (value, col(Report.pk))
    rows = list(session.exec(statement.order_by(*order).limit(query.limit + 1)))
    page = rows[: query.limit]
    more = len(rows) > query.limit
    items = _items_of(session, [report for report, _ in page], now)
    return WorklistResponse.model_construct(
        items=tuple(map(_with_iso_times, items)),
        next=_cursor(query.sort, *page[-1]) if more else None,
    )


def _with_iso_times(item: Mapping[str, Any]) -> dict[str, Any]:
    times = {name: item[name] for name in ("createdAt", "updatedAt", "signedAt")}
    marks = [{**mark, "at": iso(mark["at"])} for mark in item["reportedElsewhere"]]
    texts = {name: None if at is None else iso(at) for name, at in times.items()}
    return {**item, **texts, "reportedElsewhere": marks}


def _filters(session: Session, query: WorklistQuery) -> list[ColumnElement[bool]]:
    """
    Return the conditions of a query's filters, except its site.

    Reports whose orders are reported elsewhere are left out, unless the query names an order or a
    patient, or asks for them.
    """
    of_order = [col(ReportOrder.site_id) == query.site_id]
    if query.mrn:
        pointers = follow_pointers(session.connection(), query.site_id, [query.mrn])
        of_order.append(col(ReportOrder.mrn) == pointers.get(query.mrn, query.mrn))
    if query.accession:
        of_order.append(col(ReportOrder.accession) == query.accession)
    words = dict.fromkeys(folded_name(query.text).split())
    if len(words) > MAX_WORDS:
        raise EngineError(ErrorCode.TOO_MANY_WORDS, pointer="/q")
    of_order += [col(ReportOrder.search).contains(word, autoescape=True) for word in words]
    of_order += _study_filters(query)
    names_order = bool(query.mrn or query.accession or words)
    conditions = _elsewhere_filter(query.elsewhere, names_order=names_order)
    if len(of_order) > 1:
        conditions.append(col(Report.pk).in_(select(ReportOrder.report_pk).where(*of_order)))
    if query.status:
        conditions.append(col(Report.status).in_(query.status))
    if query.priorities:
        conditions.append(_PRIORITY_RANK.in_([PRIORITY_RANKS[code] for code in query.priorities]))
    if query.reader == NOBODY:
        conditions.append(col(Report.owner_id).is_(None))
    elif query.reader:
        email = canonical_email(query.reader)
        owner = select(Account.id).where(Account.email == email)
        conditions.append(col(Report.owner_id).in_(owner))
    return conditions


def _elsewhere_filter(wanted: ElsewhereFilter, *, names_order: bool) -> list[ColumnElement[bool]]:
    if wanted is ElsewhereFilter.ONLY:
        return [is_hidden()]
    included = wanted is ElsewhereFilter.INCLUDED or names_order
    return [] if included else [~is_hidden()]


def _study_filters(query: WorklistQuery) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if query.study_from or query.study_to:
        found.append((query.study_from or _FIRST_DAY) <= _STUDY_DAY)
    if query.study_to:
        found.append(query.study_to >= _STUDY_DAY)
    if query.modalities:
        wanted = [modality.upper() for modality in query.modalities]
        found.append(func.upper(_TAGS["Modality"].as_string()).in_(wanted))
    if query.locations:
        found.append(col(ReportOrder.location).in_(query.locations))
    return found


def _after_cursor(query: WorklistQuery, value: Any) -> ColumnElement[bool]:
    last, pk = _read_cursor(query)
    key = col(Report.pk)
    if query.sort.startswith("-"):
        return or_(value < last, (value == last) & (key < pk))
    return or_(value > last, (value == last) & (key > pk))


def _cursor(sort: Sort, report: Report, value: int | str) -> str:
    text = json.dumps([sort.value, value, key_of(report)], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _sorts_by_number(sort: Sort) -> bool:
    return sort.removeprefix("-") in ("created", "updated", "priority")


def _read_cursor(query: WorklistQuery) -> tuple[int | str, int]:
    padded = query.cursor + "=" * (-len(query.cursor) % 4)
    try:
        sort, value, pk = json.loads(base64.urlsafe_b64decode(padded))
    except (binascii.Error, ValueError, TypeError, RecursionError):
        raise EngineError(ErrorCode.BAD_CURSOR, pointer="/cursor") from None
    is_valid = _is_key(value) if _sorts_by_number(query.sort) else _is_storable(value)
    if sort != query.sort.value or not (is_valid and _is_key(pk)):
        raise EngineError(ErrorCode.BAD_CURSOR, pointer="/cursor")
    return value, pk


def _is_key(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _is_storable(value: object) -> bool:
    """True if both databases accept a text."""
    if not isinstance(value, str) or "\x00" in value:
        return False
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _items_of(session: Session, reports: list[Report], now: int) -> tuple[Mapping[str, Any], ...]:
    """Return reports, of which at least _LISTED_COLUMNS are loaded, as worklist items."""
    records = status_records(session, reports, now)
    groups = orders_by_report(session, [key_of(report) for report in reports])
    names = _owner_names(session, reports)
    return tuple(
        {
            **record.model_dump(mode="json"),
            "ownerName": names.get((report.site_id, report.owner_id), ""),
            **_urgency(groups[key_of(report)]),
            "reportedElsewhere": marks_of(groups[key_of(report)]),
            "orders": [order_json(order) for order in groups[key_of(report)]],
            "createdAt": report.created_at,
            "updatedAt": report.updated_at,
            "signedAt": report.signed_at,
        }
        for report, record in zip(reports, records, strict=True)
    )


def _urgency(orders: Sequence[ReportOrder]) -> dict[str, str | None]:
    """Return the most urgent priority of a group, and when its first order arrived."""
    first = min((order.created_at for order in orders), default=None)
    return {
        "priority": most_urgent(priority_code(order.order_metadata) for order in orders),
        "orderedAt": None if first is None else iso(first),
    }


def _owner_names(session: Session, reports: list[Report]) -> dict[tuple[str, int | None], str]:
    """Return the owners' names, by site and account."""
    owners = {report.owner_id for report in reports if report.owner_id is not None}
    rows = session.exec(select(SiteMembership).where(col(SiteMembership.account_id).in_(owners)))
    return {(row.site_id, row.account_id): row.name for row in rows}


class SortColumn(StrEnum):
    UPDATED = "updated"
    CREATED = "created"
    PATIENT = "patient"
    MRN = "mrn"
    ACCESSION = "accession"
    STUDY = "study"
    STUDY_DATE = "studyDate"
    MODALITY = "modality"
    LOCATION = "location"
    STATUS = "status"
    OWNER = "owner"
    WAITING = "waiting"
    PRIORITY = "priority"


class OwnerFilter(StrEnum):
    """Whose reports are requested."""

    ANYBODY = ""
    ME = "me"
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class RowsQuery:
    """
    A query of rows; `offset` and `limit` count reports. Empty filters do not restrict.

    `addenda` adds the reports, of any status and owner, with an unsigned addendum of the user.
    """

    site_id: str
    status: Collection[ReportStatus] = ()
    owner: OwnerFilter = OwnerFilter.ANYBODY
    text: str = ""
    location: str = ""
    modality: str = ""
    priority: Priority | None = None
    prelim_group: str = ""
    prelim_tag: str = ""
    addenda: bool = False
    report_ids: Collection[str] = ()
    elsewhere: ElsewhereFilter = ElsewhereFilter.UNNAMED
    sort: SortColumn = SortColumn.UPDATED
    descending: bool = True
    offset: int = 0
    limit: int = 100


@dataclass(frozen=True, slots=True)
class WorklistRows:
    """A range of rows; `cursor` is the newest change of the site that they include."""

    items: tuple[Mapping[str, Any], ...]
    total: int
    cursor: int

    def as_json(self) -> dict[str, Any]:
        return {"items": list(self.items), "total": self.total, "cursor": self.cursor}


_ROW_TAGS = {
    SortColumn.PATIENT: "PatientName",
    SortColumn.STUDY: "StudyDescription",
    SortColumn.STUDY_DATE: "StudyDate",
    SortColumn.MODALITY: "Modality",
}
_OPEN = col(Addendum.state) == AddendumState.DRAFT
_IS_ANCHOR = col(ReportOrder.position) == 0
_WAITS = col(PrelimRead.reviewed_at).is_(None) & col(PrelimRead.withdrawn_at).is_(None)
_TEXTS: Any = (PrelimRead.document, PrelimRead.content_text)
_OWNER_NAME = select(func.lower(SiteMembership.name)).where(
    SiteMembership.site_id == Report.site_id, SiteMembership.account_id == Report.owner_id
)
_FIRST_READ = select(func.min(PrelimRead.read_at)).where(PrelimRead.report_pk == Report.pk, _WAITS)
_ROW_VALUES: Mapping[SortColumn, Any] = {
    SortColumn.UPDATED: col(Report.updated_at),
    SortColumn.CREATED: col(Report.created_at),
    SortColumn.STATUS: col(Report.status),
    SortColumn.MRN: col(ReportOrder.mrn),
    SortColumn.ACCESSION: col(ReportOrder.accession),
    SortColumn.LOCATION: col(ReportOrder.location),
    SortColumn.OWNER: func.coalesce(_OWNER_NAME.scalar_subquery(), ""),
    SortColumn.PRIORITY: _PRIORITY_RANK,
    SortColumn.WAITING: func.coalesce(_FIRST_READ.scalar_subquery(), 0),
}


def read_rows(session: Session, query: RowsQuery, account_id: int, now: int) -> WorklistRows:
    """Return a range of a site's worklist for an account."""
    conditions = _row_conditions(session, query, account_id)
    total = session.exec(select(func.count()).select_from(Report).where(*conditions)).one()
    statement = select(Report).options(_LISTED_COLUMNS).where(*conditions)
    if query.sort not in (SortColumn.UPDATED, SortColumn.CREATED, SortColumn.PRIORITY):
        anchor = (col(ReportOrder.report_pk) == col(Report.pk)) & _IS_ANCHOR
        statement = statement.join(ReportOrder, anchor, isouter=True)
    value = _row_value(query)
    pk = col(Report.pk)
    order: tuple[Any, ...] = (
        (value.desc(), pk.desc()) if query.descending else (value.asc(), pk.asc())
    )
    if query.sort is SortColumn.PRIORITY:  # of the same priority, the oldest comes first
        order = (order[0], col(Report.created_at).asc(), pk.asc())
    reports = list(session.exec(statement.order_by(*order).offset(query.offset).limit(query.limit)))
    return WorklistRows(
        _with_reads(session, reports, now), total, newest_change(session, query.site_id)
    )


def newest_change(session: Session, site_id: str) -> int:
    """Return the cursor of a site's newest change, 0 before the first."""
    newest = select(func.max(FeedChange.cursor)).where(FeedChange.site_id == site_id)
    return session.exec(newest).one() or 0


def _row_conditions(
    session: Session, query: RowsQuery, account_id: int
) -> list[ColumnElement[bool]]:
    shared = WorklistQuery(
        query.site_id,
        text=query.text,
        modalities=[query.modality] if query.modality else (),
        priorities=[query.priority] if query.priority else (),
        elsewhere=query.elsewhere,
    )
    found = [col(Report.site_id) == query.site_id, *_filters(session, shared)]
    whose: list[ColumnElement[bool]] = []
    if query.status:
        whose.append(col(Report.status).in_(query.status))
    if query.owner is OwnerFilter.ME:
        whose.append(col(Report.owner_id) == account_id)
    if query.owner is OwnerFilter.NOBODY:
        whose.append(col(Report.owner_id).is_(None))
    if whose and query.addenda:
        own = select(Addendum.report_pk).where(_OPEN, col(Addendum.created_by_id) == account_id)
        whose = [or_(and_(*whose), col(Report.pk).in_(own))]
    found += whose
    if query.report_ids:
        found.append(col(Report.report_id).in_(query.report_ids))
    if query.location:
        here = col(ReportOrder.location) == query.location
        found.append(col(Report.pk).in_(select(ReportOrder.report_pk).where(here)))
    if query.prelim_group:
        found.append(newest_in(query.prelim_group, query.prelim_tag))
        found.append(col(Report.pk).in_(select(PrelimRead.report_pk).where(_WAITS)))
    return found


def _row_value(query: RowsQuery) -> Any:
    if query.sort in _ROW_TAGS:
        tags: Any = col(ReportOrder.tags)
        return func.coalesce(func.lower(tags[_ROW_TAGS[query.sort]].as_string()), "")
    return _ROW_VALUES[query.sort]


def _with_reads(session: Session, reports: list[Report], now: int) -> tuple[Mapping[str, Any], ...]:
    """Return rows with the preliminary read that waits for a review, and an unsigned addendum."""
    keys = [key_of(report) for report in reports]
    reads = _reads(session, keys)
    addenda = select(Addendum.report_pk).where(col(Addendum.report_pk).in_(keys), _OPEN)
    begun = set(session.exec(addenda))
    items = _items_of(session, reports, now)
    return tuple(
        {
            **item,
            "prelim": reads.get(key_of(report)),
            "openAddendum": key_of(report) in begun,
        }
        for report, item in zip(reports, items, strict=True)
    )


def _reads(session: Session, keys: list[int]) -> dict[int, dict[str, Any]]:
    query = select(PrelimRead).where(col(PrelimRead.report_pk).in_(keys), _WAITS)
    rows = session.exec(query.options(*map(defer, _TEXTS)).order_by(col(PrelimRead.read_at)))
    return {
        row.report_pk: {
            "group": row.group_name,
            "tag": row.tag_name,
            "readAt": row.read_at,
            "readBy": row.read_by.get("name") or row.read_by.get("email") or "",
        }
        for row in rows
    }


_OWN_WINDOW = WindowOptions(framed=False, details={"in_frame": False, "host": ""})


def open_from_worklist(
    work: Work,
    context: LinkContext,
    browser_user: BrowserUser,
    report_id: str,
) -> OpenedReport:
    """Open a report for a member of its site; raise `report_not_found` for other users."""
    report = lock_report_by_id(work, report_id)
    account_id = browser_user.account_on(report.site_id)
    if account_id is None or account_role(work.connection, account_id, report.site_id) is None:
        raise EngineError(ErrorCode.REPORT_NOT_FOUND)
    account = get_user(work.connection, report.site_id, account_id)
    return open_locked(work, context, report, account, _OWN_WINDOW)


def assign(work: Work, administrator: BrowserUser, report_id: str, email: str) -> Report:
    """Assign an unsigned report to a member of its site; an Ordered one becomes their Draft."""
    report = _lock_administered(work, administrator, report_id)
    if report.status in SIGNED:
        raise EngineError(ErrorCode.REPORT_SIGNED, pointer="/reportId")
    return _assign(work, report, email, "/email")


def assign_order(work: Work, identity: OrderKey, email: str) -> Report:
    """Assign the unsigned report of an order to a member of its site, as the API does."""
    report = lock_report(work, identity).report
    if report.status in SIGNED:
        raise EngineError(ErrorCode.REPORT_SIGNED)
    return _assign(work, report, email, "/UserEmail")


def _assign(work: Work, report: Report, email: str, pointer: str) -> Report:
    reader = find_member(work.connection, report.site_id, email)
    if reader is None:
        raise EngineError(ErrorCode.USER_NOT_FOUND, pointer=pointer)
    if not may_own(work, report, reader.id):
        raise EngineError(ErrorCode.NOT_PRELIM_REVIEWER, pointer=pointer)
    return assign_report(work, report, reader.id)


def return_to_worklist(work: Work, administrator: BrowserUser, report_id: str) -> Report:
    """Return a Draft to the worklist; its content stays."""
    return unassign_report(work, _lock_administered(work, administrator, report_id))


def _lock_administered(work: Work, browser_user: BrowserUser, report_id: str) -> Report:
    report = lock_report_by_id(work, report_id)
    account_id = browser_user.account_on(report.site_id)
    if account_id is None:
        raise EngineError(ErrorCode.REPORT_NOT_FOUND)
    role = account_role(work.connection, account_id, report.site_id)
    if role is None:
        raise EngineError(ErrorCode.REPORT_NOT_FOUND)
    if role is not SiteRole.ADMINISTRATOR:
        raise EngineError(ErrorCode.FORBIDDEN)
    return report
