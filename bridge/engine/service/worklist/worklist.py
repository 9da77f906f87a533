"""
The worklist of the API: a site's reports, filtered, sorted, page by page.

A cursor contains the sort value and key of the last report. A change between two requests can move
a report to another page: a client that reads page by page may miss that report or get it twice.
"""

import base64
import binascii
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import ColumnElement, case, func, or_
from sqlalchemy.orm import aliased, load_only
from sqlmodel import Session, col, select

from bridge.email import canonical_email
from bridge.engine.errors import RuleBroken
from bridge.engine.records.tables import Account, Report, ReportOrder, SiteMembership
from bridge.engine.rules.lifecycle import Reason, Status
from bridge.engine.rules.order import (
    PRIORITY_RANKS,
    ROUTINE_RANK,
    Priority,
    most_urgent,
    priority_code,
)
from bridge.engine.rules.patients import folded_name
from bridge.engine.rules.timestamps import iso
from bridge.engine.service.change_feed import order_json
from bridge.engine.service.report_lookup import follow_pointers, key_of
from bridge.engine.service.report_status import orders_by_report, status_records


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
LISTED_COLUMNS: Final = load_only(*_LISTED, raiseload=True)
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
PRIORITY_RANK: Final = func.coalesce(
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
    "priority": PRIORITY_RANK,
    "updated": col(Report.updated_at),
    "created": col(Report.created_at),
    "studyDate": func.coalesce(_STUDY_DAY, ""),
    "patient": func.coalesce(func.lower(_TAGS["PatientName"].as_string()), ""),
}
"""The sort values. Study date and patient are those of the anchor, the report's first order."""

MAX_WORDS = 20
"""Maximum number of words to search; each is compared with all orders of the site."""


@dataclass(frozen=True, slots=True)
class WorklistQuery:
    """
    A query of the worklist. Empty filters do not restrict. Routine priority includes none.

    `study_from` and `study_to` are days (YYYYMMDD), both included. `reader` is the owner's e-mail
    address, or `NOBODY`.
    """

    site_id: str
    status: Collection[Status] = ()
    mrn: str = ""
    accession: str = ""
    text: str = ""
    study_from: str = ""
    study_to: str = ""
    modalities: Collection[str] = ()
    locations: Collection[str] = ()
    priorities: Collection[Priority] = ()
    reader: str = ""
    sort: Sort = Sort.NEWEST_UPDATED
    limit: int = 100
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class WorklistResult:
    """A page of the worklist; `next` is the cursor of the next page, None at the end."""

    items: tuple[Mapping[str, Any], ...]
    next: str | None

    def as_json(self) -> dict[str, Any]:
        """Return the page as HTTP sends it."""
        return {"items": list(self.items), "next": self.next}


def read_worklist(session: Session, query: WorklistQuery, now: int) -> WorklistResult:
    """Return one page; raise RuleBroken for an invalid cursor or one of another sort order."""
    value = _VALUES[query.sort.removeprefix("-")]
    statement = select(Report, value).options(LISTED_COLUMNS)
    statement = statement.where(Report.site_id == query.site_id)
    if not _sorts_by_number(query.sort):
        statement = statement.join(ReportOrder, _ANCHOR, isouter=True)
    for condition in filters(session, query):
        statement = statement.where(condition)
    if query.cursor:
        statement = statement.where(_after_cursor(query, value))
    descending = query.sort.startswith("-")
    order = (value.desc(), col(Report.pk).desc()) if descending else (value, col(Report.pk))
    rows = list(session.exec(statement.order_by(*order).limit(query.limit + 1)))
    page = rows[: query.limit]
    more = len(rows) > query.limit
    items = items_of(session, [report for report, _ in page], now)
    return WorklistResult(
        tuple(map(_with_iso_times, items)), _cursor(query.sort, *page[-1]) if more else None
    )


def _with_iso_times(item: Mapping[str, Any]) -> dict[str, Any]:
    times = {name: item[name] for name in ("createdAt", "updatedAt", "signedAt")}
    return {**item, **{name: None if at is None else iso(at) for name, at in times.items()}}


def filters(session: Session, query: WorklistQuery) -> list[ColumnElement[bool]]:
    """Return the conditions of a query's filters, except its site."""
    of_order = [col(ReportOrder.site_id) == query.site_id]
    if query.mrn:
        pointers = follow_pointers(session.connection(), query.site_id, [query.mrn])
        of_order.append(col(ReportOrder.mrn) == pointers.get(query.mrn, query.mrn))
    if query.accession:
        of_order.append(col(ReportOrder.accession) == query.accession)
    words = dict.fromkeys(folded_name(query.text).split())
    if len(words) > MAX_WORDS:
        raise RuleBroken(Reason.TOO_MANY_WORDS, pointer="/q")
    of_order += [col(ReportOrder.search).contains(word, autoescape=True) for word in words]
    of_order += _study_filters(query)
    conditions: list[ColumnElement[bool]] = []
    if len(of_order) > 1:
        conditions.append(col(Report.pk).in_(select(ReportOrder.report_pk).where(*of_order)))
    if query.status:
        conditions.append(col(Report.status).in_(query.status))
    if query.priorities:
        conditions.append(PRIORITY_RANK.in_([PRIORITY_RANKS[code] for code in query.priorities]))
    if query.reader == NOBODY:
        conditions.append(col(Report.owner_id).is_(None))
    elif query.reader:
        email = canonical_email(query.reader)
        owner = select(Account.id).where(Account.email == email)
        conditions.append(col(Report.owner_id).in_(owner))
    return conditions


def _study_filters(query: WorklistQuery) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if query.study_from or query.study_to:
        found.append((query.study_from or _FIRST_DAY) <= _STUDY_DAY)
    if query.study_to:
        found.append(query.study_to >= _STUDY_DAY)
    if query.modalities:
        wanted = [each.upper() for each in query.modalities]
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
        raise RuleBroken(Reason.BAD_CURSOR, pointer="/cursor") from None
    is_valid = _is_key(value) if _sorts_by_number(query.sort) else _is_storable(value)
    if sort != query.sort.value or not (is_valid and _is_key(pk)):
        raise RuleBroken(Reason.BAD_CURSOR, pointer="/cursor")
    return value, pk


def _is_key(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _is_storable(value: object) -> bool:
    """True if both databases accept a text."""
    if not isinstance(value, str) or "\x00" in value:
        return False
    return not any("\ud800" <= each <= "\udfff" for each in value)


def items_of(session: Session, reports: list[Report], now: int) -> tuple[Mapping[str, Any], ...]:
    """Return reports, of which at least LISTED_COLUMNS are loaded, as worklist items."""
    records = status_records(session, reports, now)
    groups = orders_by_report(session, [key_of(report) for report in reports])
    names = _owner_names(session, reports)
    return tuple(
        {
            **record.as_json(),
            "ownerName": names.get((report.site_id, report.owner_id), ""),
            **_urgency(groups[key_of(report)]),
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
