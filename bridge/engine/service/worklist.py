"""
The worklist (DESIGN chapter 6): a site's reports, filtered, sorted, page by page.

A page goes on where the last one ended, by the sorted value and the key: what changes in
between can move a report to an earlier page, and never makes one appear twice on a later one.
"""

import base64
import binascii
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, or_
from sqlmodel import Session, col, select

from bridge.engine.errors import RuleBroken
from bridge.engine.records.tables import Membership, Report, ReportOrder
from bridge.engine.rules.moments import iso
from bridge.engine.rules.patients import folded_name
from bridge.engine.rules.priority import most_urgent, priority_code
from bridge.engine.rules.reasons import Reason
from bridge.engine.rules.status import Status
from bridge.engine.service.feed import order_json
from bridge.engine.service.finding import follow_pointers, key_of
from bridge.engine.service.reading import orders_by_report, status_records


class Sort(StrEnum):
    """Orders of the worklist; a minus sign puts the newest first."""

    UPDATED = "updated"
    NEWEST_UPDATED = "-updated"
    CREATED = "created"
    NEWEST_CREATED = "-created"


@dataclass(frozen=True, slots=True)
class WorklistQuery:
    """What is asked for; empty filters let everything through."""

    site_id: str
    status: Collection[Status] = ()
    mrn: str = ""
    accession: str = ""
    text: str = ""
    sort: Sort = Sort.NEWEST_UPDATED
    limit: int = 100
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class WorklistPage:
    """A page of the worklist; `next` is the cursor of the next one, None at the end."""

    items: tuple[Mapping[str, Any], ...]
    next: str | None

    def as_json(self) -> dict[str, Any]:
        """Return the page as the edge sends it."""
        return {"items": list(self.items), "next": self.next}


def read_worklist(session: Session, query: WorklistQuery, now: int) -> WorklistPage:
    """Return one page; raise RuleBroken for a cursor that was not given out for this sort."""
    value = col(Report.created_at) if "created" in query.sort else col(Report.updated_at)
    statement = select(Report).where(Report.site_id == query.site_id)
    for condition in filters(session, query):
        statement = statement.where(condition)
    if query.cursor:
        statement = statement.where(_beyond(query, value))
    descending = query.sort.startswith("-")
    order = (value.desc(), col(Report.pk).desc()) if descending else (value, col(Report.pk))
    rows = list(session.exec(statement.order_by(*order).limit(query.limit + 1)))
    page = rows[: query.limit]
    more = len(rows) > query.limit
    return WorklistPage(
        items_of(session, page, now), _cursor(query.sort, page[-1]) if more else None
    )


def filters(session: Session, query: WorklistQuery) -> list[ColumnElement[bool]]:
    """Return the conditions that a query's filters come to, beside its site."""
    own = [col(ReportOrder.site_id) == query.site_id]
    if query.mrn:
        pointers = follow_pointers(session.connection(), query.site_id, [query.mrn])
        own.append(col(ReportOrder.mrn) == pointers.get(query.mrn, query.mrn))
    if query.accession:
        own.append(col(ReportOrder.accession) == query.accession)
    own += [
        col(ReportOrder.search).contains(word, autoescape=True)
        for word in folded_name(query.text).split()
    ]
    filters: list[ColumnElement[bool]] = []
    if len(own) > 1:
        filters.append(col(Report.pk).in_(select(ReportOrder.report_pk).where(*own)))
    if query.status:
        filters.append(col(Report.status).in_(query.status))
    return filters


def _beyond(query: WorklistQuery, value: Any) -> ColumnElement[bool]:
    last, pk = _read_cursor(query)
    key = col(Report.pk)
    if query.sort.startswith("-"):
        return or_(value < last, (value == last) & (key < pk))
    return or_(value > last, (value == last) & (key > pk))


def _cursor(sort: Sort, report: Report) -> str:
    value = report.created_at if "created" in sort else report.updated_at
    text = json.dumps([sort.value, value, key_of(report)], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read_cursor(query: WorklistQuery) -> tuple[int, int]:
    padded = query.cursor + "=" * (-len(query.cursor) % 4)
    try:
        sort, value, pk = json.loads(base64.urlsafe_b64decode(padded))
    except (binascii.Error, ValueError, TypeError, RecursionError):
        raise RuleBroken(Reason.BAD_CURSOR, pointer="/cursor") from None
    if sort != query.sort.value or not (_is_key(value) and _is_key(pk)):
        raise RuleBroken(Reason.BAD_CURSOR, pointer="/cursor")
    return value, pk


def _is_key(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def items_of(session: Session, reports: list[Report], now: int) -> tuple[Mapping[str, Any], ...]:
    """Return reports as the worklist shows them."""
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
    """Return the most urgent priority of a group, and when its first order came."""
    first = min((order.created_at for order in orders), default=None)
    return {
        "priority": most_urgent(priority_code(order.order_metadata) for order in orders),
        "orderedAt": None if first is None else iso(first),
    }


def _owner_names(session: Session, reports: list[Report]) -> dict[tuple[str, int | None], str]:
    """Return the owners' names, by site and account."""
    owners = {report.owner_id for report in reports if report.owner_id is not None}
    rows = session.exec(select(Membership).where(col(Membership.account_id).in_(owners)))
    return {(row.site_id, row.account_id): row.name for row in rows}
