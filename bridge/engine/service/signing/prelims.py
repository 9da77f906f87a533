"""Preliminary reads (interface document, prelim and site/prelims).

A read keeps the text as it was. Who reads next, or signs, and is somebody else, has reviewed it.
Members read for their group; reviewers take its reads over (`rules.prelims`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement
from sqlalchemy.orm import aliased
from sqlmodel import Session, col, select

from bridge.email import canonical_email
from bridge.engine.errors import PrelimNotFound, RuleBroken
from bridge.engine.records.tables import PrelimGroup, PrelimRead, Report
from bridge.engine.rules.identity import OrderId
from bridge.engine.rules.lifecycle import ReportEvent
from bridge.engine.rules.prelims import (
    PrelimGroupPolicy,
    PrelimReader,
    ReadState,
    may_review,
    refuse_prelim,
    refuse_reader,
    reviewed_by,
)
from bridge.engine.rules.reasons import Reason
from bridge.engine.rules.site_roles import ReportAction
from bridge.engine.rules.status import Status
from bridge.engine.rules.timestamps import iso
from bridge.engine.service import change_feed
from bridge.engine.service.lifecycle import (
    apply_event,
    describe_person,
    document_json,
    person_statement,
    prelim_reads,
    read_author,
    require_author,
)
from bridge.engine.service.report_lookup import key_of, lock_report
from bridge.engine.service.report_status import StatusRecord, reports_by_key, status_records
from bridge.engine.service.work import ChangeEvent, Work
from bridge.store.statements import execute_bound


def prelim(work: Work, identity: OrderId, group: str, tag: str) -> Report:
    """Make a report Preliminary in the name of its owner, as the API does."""
    report = lock_report(work, identity).report
    return prelim_report(work, report, report.owner_id, group, tag)


def prelim_report(
    work: Work, report: Report, reader_id: int | None, group: str, tag: str
) -> Report:
    """Add a preliminary read to a locked report; raise `AuthorNotPermitted` or `RuleBroken`."""
    reviews = report.status is Status.PRELIMINARY and _is_reviewer(work, report, reader_id)
    apply_event(work, report, ReportEvent.PRELIM)
    reader, role = require_author(work, report, reader_id, ReportAction.PRELIM)
    groups = site_groups(work.session, report.site_id)
    rules = {name: _as_rule(row) for name, row in groups.items()}
    reason = refuse_prelim(rules, group, tag)
    if reason is None and not reviews:
        reason = refuse_reader(rules, group, PrelimReader(reader["email"], role))
    if reason is not None:
        named = "prelimTag" if reason is Reason.UNKNOWN_PRELIM_TAG else "prelimGroup"
        raise RuleBroken(reason, pointer=f"/{named}")
    _learn(work, report.site_id, groups, group, tag)
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


def withdraw(work: Work, identity: OrderId) -> Report:
    """
    Withdraw the newest preliminary read; the text stays, and so does the owner.

    The report is Preliminary with the read before, which waits for its review again, or a Draft.
    """
    report = lock_report(work, identity).report
    apply_event(work, report, ReportEvent.PRELIM_WITHDRAW)
    newest, *others = [each for each in prelim_reads(work, report)[::-1] if not each.withdrawn_at]
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
    Tell whether a person may own a locked report: anybody on the site, but for Preliminary ones.

    Those are for who read them and for the reviewers of their group (V9).
    """
    if report.status is not Status.PRELIMINARY or report.owner_id == account_id:
        return True
    newest = _newest(work, report)
    if newest is None or newest.read_by_id == account_id:
        return True
    return _is_reviewer(work, report, account_id)


def _is_reviewer(work: Work, report: Report, account_id: int | None) -> bool:
    newest = _newest(work, report)
    if newest is None or account_id is None or newest.read_by_id == account_id:
        return False
    asked = person_statement(work, report.site_id, account_id)
    described, role = read_author(execute_bound(work.connection, asked))
    groups = site_groups(work.session, report.site_id)
    rules = {name: _as_rule(row) for name, row in groups.items()}
    return may_review(rules, newest.group_name, PrelimReader(described["email"], role))


def _newest(work: Work, report: Report) -> PrelimRead | None:
    active = [each for each in prelim_reads(work, report) if each.withdrawn_at is None]
    return active[-1] if active else None


def site_groups(session: Session, site_id: str) -> dict[str, PrelimGroup]:
    """Return a site's prelim groups by name."""
    rows = session.exec(select(PrelimGroup).where(PrelimGroup.site_id == site_id))
    return {row.name: row for row in rows}


def _as_rule(row: PrelimGroup) -> PrelimGroupPolicy:
    return PrelimGroupPolicy(
        row.name,
        frozenset(row.tags),
        row.configured,
        frozenset(map(canonical_email, row.members)),
        None if row.reviewers is None else frozenset(map(canonical_email, row.reviewers)),
    )


def _learn(
    work: Work, site_id: str, groups: Mapping[str, PrelimGroup], group: str, tag: str
) -> None:
    """Remember a group and tag that a site without groups of its own uses."""
    if group in groups and tag in groups[group].tags:
        return
    query = select(PrelimGroup).where(PrelimGroup.site_id == site_id, PrelimGroup.name == group)
    locked = query.with_for_update().execution_options(populate_existing=True)
    row = work.session.exec(locked).first()
    row = row or PrelimGroup(site_id=site_id, name=group, configured=False)
    if tag not in row.tags:
        row.tags = [*row.tags, tag]
        work.session.add(row)
        work.session.flush()


def review(work: Work, report: Report, reviewer_id: int | None) -> None:
    """Note who reviewed the reads of others."""
    reads = prelim_reads(work, report)
    seen = [
        ReadState(
            read.read_at,
            read.read_by_id,
            read.reviewed_at is not None,
            read.withdrawn_at is not None,
        )
        for read in reads
    ]
    for index in reviewed_by(seen, reviewer_id):
        reads[index].reviewed_at = work.now
        reads[index].reviewed_by = describe_person(work, report.site_id, reviewer_id)
        work.session.add(reads[index])


@dataclass(frozen=True, slots=True)
class WaitingReport:
    """A preliminary report that waits for its review."""

    record: StatusRecord
    read_at: int

    def as_json(self) -> dict[str, Any]:
        """Return the members that site/prelims shows of it."""
        record = self.record.as_json()
        return {
            "reportId": record["reportId"],
            "clinicalInfo": record["clinicalInfo"],
            "userEmail": record["userEmail"],
            "prelimAt": iso(self.read_at),
        }


def list_waiting(
    session: Session, site_id: str, group: str, tag: str, now: int
) -> list[WaitingReport]:
    """
    Return the reports that wait in a group and tag, the longest-waiting first.

    A report waits where its newest read put it, since the first of its reads there. Raise
    PrelimNotFound for a group or tag that the site does not have.
    """
    known = site_groups(session, site_id).get(group)
    if known is None or tag not in known.tags:
        raise PrelimNotFound
    rows = session.exec(
        select(PrelimRead.report_pk, PrelimRead.read_at)
        .join(Report, col(Report.pk) == PrelimRead.report_pk)
        .where(
            Report.site_id == site_id,
            Report.status == Status.PRELIMINARY,
            PrelimRead.group_name == group,
            PrelimRead.tag_name == tag,
            col(PrelimRead.withdrawn_at).is_(None),
            col(PrelimRead.reviewed_at).is_(None),
            newest_in(group, tag),
        )
        .order_by(col(PrelimRead.read_at), col(PrelimRead.pk))
    )
    first: dict[int, int] = {}
    for report_pk, read_at in rows:
        first.setdefault(report_pk, read_at)
    return _with_records(session, first, now)


def newest_in(group: str, tag: str = "") -> ColumnElement[bool]:
    """Give the condition that a report's newest active read is in a group and, if given, a tag."""
    active = aliased(PrelimRead)
    newest = (
        select(active.pk)
        .where(active.report_pk == Report.pk, col(active.withdrawn_at).is_(None))
        .order_by(col(active.read_at).desc(), col(active.pk).desc())
        .limit(1)
        .correlate(Report)
        .scalar_subquery()
    )
    own = aliased(PrelimRead)
    there = select(own.pk).where(own.report_pk == Report.pk, own.pk == newest)
    there = there.where(own.group_name == group)
    if tag:
        there = there.where(own.tag_name == tag)
    return there.correlate(Report).exists()


def _with_records(session: Session, first: Mapping[int, int], now: int) -> list[WaitingReport]:
    by_key = reports_by_key(session, list(first))
    reports: Sequence[Report] = [by_key[key] for key in first if key in by_key]
    records = status_records(session, reports, now)
    return [
        WaitingReport(record, first[key_of(report)])
        for record, report in zip(records, reports, strict=True)
    ]
