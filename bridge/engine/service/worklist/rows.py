"""
The worklist of the application: any range of rows, and the total number.

Rows are sorted by a column of the anchor order. The worklist of the API, page by page, is in
`worklist`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, and_, func, or_
from sqlalchemy.orm import defer
from sqlmodel import Session, col, select

from bridge.engine.records.tables import (
    Addendum,
    FeedChange,
    PrelimRead,
    Report,
    ReportOrder,
    SiteMembership,
)
from bridge.engine.rules.lifecycle import AddendumState, Status
from bridge.engine.rules.order import Priority
from bridge.engine.service.report_lookup import key_of
from bridge.engine.service.signing.prelims import newest_in
from bridge.engine.service.worklist.worklist import (
    LISTED_COLUMNS,
    PRIORITY_RANK,
    WorklistQuery,
    filters,
    items_of,
)


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
    status: Collection[Status] = ()
    owner: OwnerFilter = OwnerFilter.ANYBODY
    text: str = ""
    location: str = ""
    modality: str = ""
    priority: Priority | None = None
    prelim_group: str = ""
    prelim_tag: str = ""
    addenda: bool = False
    report_ids: Collection[str] = ()
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


_TAGS = {
    SortColumn.PATIENT: "PatientName",
    SortColumn.STUDY: "StudyDescription",
    SortColumn.STUDY_DATE: "StudyDate",
    SortColumn.MODALITY: "Modality",
}
_OPEN = col(Addendum.state) == AddendumState.DRAFT
_ANCHOR = col(ReportOrder.position) == 0
_WAITS = col(PrelimRead.reviewed_at).is_(None) & col(PrelimRead.withdrawn_at).is_(None)
_TEXTS: Any = (PrelimRead.document, PrelimRead.content_text)
_OWNER_NAME = select(func.lower(SiteMembership.name)).where(
    SiteMembership.site_id == Report.site_id, SiteMembership.account_id == Report.owner_id
)
_FIRST_READ = select(func.min(PrelimRead.read_at)).where(PrelimRead.report_pk == Report.pk, _WAITS)
_VALUES: Mapping[SortColumn, Any] = {
    SortColumn.UPDATED: col(Report.updated_at),
    SortColumn.CREATED: col(Report.created_at),
    SortColumn.STATUS: col(Report.status),
    SortColumn.MRN: col(ReportOrder.mrn),
    SortColumn.ACCESSION: col(ReportOrder.accession),
    SortColumn.LOCATION: col(ReportOrder.location),
    SortColumn.OWNER: func.coalesce(_OWNER_NAME.scalar_subquery(), ""),
    SortColumn.PRIORITY: PRIORITY_RANK,
    SortColumn.WAITING: func.coalesce(_FIRST_READ.scalar_subquery(), 0),
}


def read_rows(session: Session, query: RowsQuery, account_id: int, now: int) -> WorklistRows:
    """Return a range of a site's worklist for an account."""
    conditions = _conditions(session, query, account_id)
    total = session.exec(select(func.count()).select_from(Report).where(*conditions)).one()
    statement = select(Report).options(LISTED_COLUMNS).where(*conditions)
    if query.sort not in (SortColumn.UPDATED, SortColumn.CREATED, SortColumn.PRIORITY):
        anchor = (col(ReportOrder.report_pk) == col(Report.pk)) & _ANCHOR
        statement = statement.join(ReportOrder, anchor, isouter=True)
    value = _value(query)
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


def _conditions(session: Session, query: RowsQuery, account_id: int) -> list[ColumnElement[bool]]:
    shared = WorklistQuery(
        query.site_id,
        text=query.text,
        modalities=[query.modality] if query.modality else (),
        priorities=[query.priority] if query.priority else (),
    )
    found = [col(Report.site_id) == query.site_id, *filters(session, shared)]
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


def _value(query: RowsQuery) -> Any:
    if query.sort in _TAGS:
        tags: Any = col(ReportOrder.tags)
        return func.coalesce(func.lower(tags[_TAGS[query.sort]].as_string()), "")
    return _VALUES[query.sort]


def _with_reads(session: Session, reports: list[Report], now: int) -> tuple[Mapping[str, Any], ...]:
    """Return rows with the preliminary read that waits for a review, and an unsigned addendum."""
    keys = [key_of(report) for report in reports]
    reads = _reads(session, keys)
    addenda = select(Addendum.report_pk).where(col(Addendum.report_pk).in_(keys), _OPEN)
    begun = set(session.exec(addenda))
    items = items_of(session, reports, now)
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
