"""
Preliminary reads (interface reference, prelim and site/prelims).

A read stores the text of its time. The next person who reads or signs the report is its reviewer,
unless they made the read themselves. Members read for their group; reviewers review its reads
(`rules.signing`).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, and_, func, or_
from sqlalchemy.orm import aliased
from sqlmodel import Session, col, select

from bridge.contract import OrderKey, ReportStatus
from bridge.contract.errors import ErrorCode
from bridge.contract.responses import StatusRecordBody
from bridge.email import canonical_email
from bridge.engine.errors import EngineError
from bridge.engine.records.tables import PrelimGroup, PrelimRead, Report, ReportOrder
from bridge.engine.rules.lifecycle import LifecycleEvent
from bridge.engine.rules.signing import (
    PrelimGroupPolicy,
    PrelimReader,
    ReadState,
    may_review,
    refuse_prelim,
    refuse_reader,
    reviewed_by,
)
from bridge.engine.rules.site_roles import ReportAction
from bridge.engine.service import change_feed
from bridge.engine.service.report_lookup import key_of, lock_report
from bridge.engine.service.report_status import records_by_key
from bridge.engine.service.report_transitions import (
    apply_event,
    describe_person,
    document_json,
    find_author,
    prelim_reads,
    require_author,
)
from bridge.engine.service.stored_texts import require_room_for_states
from bridge.engine.service.work import ChangeEvent, Work

MAX_GROUPS, MAX_TAGS = 1000, 100
"""Maximum number of groups of a site, and of tags of a group, that their first use adds."""

MAX_WAITING: Final = 1000
"""Maximum number of waiting reports on a page."""

MAX_WAITING_ORDERS: Final = 5000
"""Number of orders of waiting reports after which a page ends: each has three identifiers."""

_CURSOR: Final = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})")


def prelim(work: Work, identity: OrderKey, group: str, tag: str) -> Report:
    """Add a preliminary read in the name of the report's owner, as the API does."""
    report = lock_report(work, identity).report
    return prelim_report(work, report, report.owner_id, group, tag)


def prelim_report(
    work: Work, report: Report, reader_id: int | None, group: str, tag: str
) -> Report:
    """Add a preliminary read to a locked report; raise `EngineError`."""
    is_reviewer = report.status is ReportStatus.PRELIMINARY and _is_reviewer(
        work, report, reader_id
    )
    apply_event(work, report, LifecycleEvent.PRELIM)
    reader, role = require_author(work, report, reader_id, ReportAction.PRELIM)
    groups = site_groups(work.session, report.site_id)
    policies = {name: _as_policy(row) for name, row in groups.items()}
    reason = refuse_prelim(policies, group, tag)
    if reason is None and not is_reviewer:
        reason = refuse_reader(policies, group, PrelimReader(reader["email"], role))
    if reason is not None:
        named = "prelimTag" if reason is ErrorCode.UNKNOWN_PRELIM_TAG else "prelimGroup"
        raise EngineError(reason, pointer=f"/{named}")
    require_room_for_states(work, report)
    _add_to_group(work, report.site_id, groups, group, tag)
    review(work, report, reader_id)
    work.session.add(
        PrelimRead(
            report_pk=key_of(report),
            group_name=group,
            tag_name=tag,
            read_at=work.now,
            read_by_id=reader_id,
            read_by=reader,
            document=document_json(report),
            content_text=report.content_text,
        )
    )
    change_feed.announce(work, report, ChangeEvent.REPORT_PRELIMED)
    return report


def withdraw(work: Work, identity: OrderKey) -> Report:
    """
    Withdraw the newest preliminary read; text and owner stay.

    The report stays Preliminary if it has an earlier read, which is then unreviewed again;
    otherwise it becomes a Draft.
    """
    report = lock_report(work, identity).report
    apply_event(work, report, LifecycleEvent.PRELIM_WITHDRAW)
    newest, *others = [
        prelim_read
        for prelim_read in prelim_reads(work, report)[::-1]
        if not prelim_read.withdrawn_at
    ]
    newest.withdrawn_at = work.now
    work.session.add(newest)
    for read in others:
        if read.reviewed_at == newest.read_at:
            read.reviewed_at = read.reviewed_by = None
            work.session.add(read)
    change_feed.announce(work, report, ChangeEvent.REPORT_PRELIM_WITHDRAWN)
    return report


def may_own(work: Work, report: Report, account_id: int) -> bool:
    """
    True if a user may own a locked report.

    Any member of the site may own a report that is not Preliminary. A Preliminary report may be
    owned by its current owner, by the reader of its newest active read, and by the reviewers of
    that reader's group.
    """
    if report.status is not ReportStatus.PRELIMINARY or report.owner_id == account_id:
        return True
    newest = _newest(work, report)
    if newest is None or newest.read_by_id == account_id:
        return True
    return _is_reviewer(work, report, account_id)


def _is_reviewer(work: Work, report: Report, account_id: int | None) -> bool:
    newest = _newest(work, report)
    if newest is None or account_id is None or newest.read_by_id == account_id:
        return False
    person, role = find_author(work, report.site_id, account_id)
    groups = site_groups(work.session, report.site_id)
    policies = {name: _as_policy(row) for name, row in groups.items()}
    return may_review(policies, newest.group_name, PrelimReader(person["email"], role))


def _newest(work: Work, report: Report) -> PrelimRead | None:
    active = [read for read in prelim_reads(work, report) if read.withdrawn_at is None]
    return active[-1] if active else None


def site_groups(session: Session, site_id: str) -> dict[str, PrelimGroup]:
    rows = session.exec(select(PrelimGroup).where(PrelimGroup.site_id == site_id))
    return {row.name: row for row in rows}


def _as_policy(row: PrelimGroup) -> PrelimGroupPolicy:
    return PrelimGroupPolicy(
        row.name,
        frozenset(row.tags),
        row.configured,
        frozenset(map(canonical_email, row.members)),
        None if row.reviewers is None else frozenset(map(canonical_email, row.reviewers)),
    )


def _add_to_group(
    work: Work, site_id: str, groups: Mapping[str, PrelimGroup], group: str, tag: str
) -> None:
    """Add a group and tag that a site without configured groups uses for the first time."""
    if group in groups and tag in groups[group].tags:
        return
    is_full = len(groups[group].tags) >= MAX_TAGS if group in groups else len(groups) >= MAX_GROUPS
    if is_full:
        raise EngineError(ErrorCode.TOO_MANY_PRELIM_TAGS, pointer="/prelimGroup")
    query = select(PrelimGroup).where(PrelimGroup.site_id == site_id, PrelimGroup.name == group)
    locked = query.with_for_update().execution_options(populate_existing=True)
    row = work.session.exec(locked).first()
    row = row or PrelimGroup(site_id=site_id, name=group, configured=False)
    if tag not in row.tags:
        row.tags = [*row.tags, tag]
        work.session.add(row)
        work.session.flush()


def review(work: Work, report: Report, reviewer_id: int | None) -> None:
    """Record the reviewer of the reads of others that nobody has reviewed yet."""
    reads = prelim_reads(work, report)
    states = [
        ReadState(
            read.read_at,
            read.read_by_id,
            read.reviewed_at is not None,
            read.withdrawn_at is not None,
        )
        for read in reads
    ]
    for index in reviewed_by(states, reviewer_id):
        reads[index].reviewed_at = work.now
        reads[index].reviewed_by = describe_person(work, report.site_id, reviewer_id)
        work.session.add(reads[index])


@dataclass(frozen=True, slots=True)
class WaitingReport:
    """A preliminary report that waits for its review."""

    record: StatusRecordBody
    read_at: int


class WaitingPage(NamedTuple):
    """A page of waiting reports; `next` is the cursor of the next page, None at the end."""

    reports: list[WaitingReport]
    next: str | None


def list_waiting(
    session: Session, site_id: str, group: str, tag: str, now: int, cursor: str = ""
) -> WaitingPage:
    """
    Return a page of the reports that wait in a group and tag, the longest-waiting first.

    A report waits in the group and tag of its newest read. It has waited since its first unreviewed
    read there. Raise EngineError for an unknown group or tag, or a cursor that no page has.
    """
    known = site_groups(session, site_id).get(group)
    if known is None or tag not in known.tags:
        raise EngineError(ErrorCode.PRELIM_NOT_FOUND)
    waiting_since, first_read = func.min(PrelimRead.read_at), func.min(PrelimRead.pk)
    query = (
        select(PrelimRead.report_pk, waiting_since, first_read)
        .join(Report, col(Report.pk) == PrelimRead.report_pk)
        .where(
            Report.site_id == site_id,
            Report.status == ReportStatus.PRELIMINARY,
            PrelimRead.group_name == group,
            PrelimRead.tag_name == tag,
            col(PrelimRead.withdrawn_at).is_(None),
            col(PrelimRead.reviewed_at).is_(None),
            newest_in(group, tag),
        )
        .group_by(col(PrelimRead.report_pk))
        .order_by(waiting_since, first_read)
        .limit(MAX_WAITING + 1)
    )
    if cursor:
        since, read = _read_cursor(cursor)
        later = and_(waiting_since == since, first_read > read)
        query = query.having(or_(waiting_since > since, later))
    rows = session.exec(query).all()
    page = _first_with_few_orders(session, rows[:MAX_WAITING])
    records = records_by_key(session.connection(), [key for key, *_ in page], now)
    return WaitingPage(
        [WaitingReport(records[key], read_at) for key, read_at, _ in page if key in records],
        f"{page[-1][1]}.{page[-1][2]}" if len(page) < len(rows) else None,
    )


def _read_cursor(cursor: str) -> tuple[int, int]:
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise EngineError(ErrorCode.BAD_CURSOR, pointer="/cursor")
    return int(found[1]), int(found[2])


def _first_with_few_orders(session: Session, rows: Sequence[Any]) -> Sequence[Any]:
    """Return the first rows, until their reports have MAX_WAITING_ORDERS."""
    query = select(ReportOrder.report_pk, func.count()).group_by(col(ReportOrder.report_pk))
    keys = [key for key, *_ in rows]
    counts = dict(session.exec(query.where(col(ReportOrder.report_pk).in_(keys))).all())
    totals = accumulate(counts.get(key, 0) for key in keys)
    whole = sum(total < MAX_WAITING_ORDERS for total in totals)
    return rows[: whole + 1]


def newest_in(group: str, tag: str = "") -> ColumnElement[bool]:
    """Return the condition that a report's newest active read is in a group and tag."""
    active = aliased(PrelimRead)
    newest = (
        select(active.pk)
        .where(active.report_pk == Report.pk, col(active.withdrawn_at).is_(None))
        .order_by(col(active.read_at).desc(), col(active.pk).desc())
        .limit(1)
        .correlate(Report)
        .scalar_subquery()
    )
    read = aliased(PrelimRead)
    newest_read = select(read.pk).where(read.report_pk == Report.pk, read.pk == newest)
    newest_read = newest_read.where(read.group_name == group)
    if tag:
        newest_read = newest_read.where(read.tag_name == tag)
    return newest_read.correlate(Report).exists()
