"""
Preliminary reads (interface document, prelim and site/prelims).

A read keeps the text as it was. Who reads next, or signs, and is somebody else, has reviewed it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlmodel import Session, col, select

from bridge.engine.errors import PrelimNotFound, RuleBroken
from bridge.engine.records.tables import PrelimGroup, PrelimRead, Report
from bridge.engine.rules.identity import Triple
from bridge.engine.rules.lifecycle import Event
from bridge.engine.rules.moments import iso
from bridge.engine.rules.prelims import Group, Read, refuse_prelim, reviewed_by
from bridge.engine.rules.reasons import Reason
from bridge.engine.rules.status import Status
from bridge.engine.service import feed
from bridge.engine.service.finding import key_of, lock_report
from bridge.engine.service.lifecycle import document_json, person, prelim_reads, take
from bridge.engine.service.reading import StatusRecord, reports_by_key, status_records
from bridge.engine.service.work import ChangeEvent, Work


def prelim(work: Work, triple: Triple, group: str, tag: str) -> Report:
    """Make a report Preliminary in the name of its owner, as the API does."""
    report = lock_report(work, triple).report
    return prelim_report(work, report, report.owner_id, group, tag)


def prelim_report(
    work: Work, report: Report, reader_id: int | None, group: str, tag: str
) -> Report:
    """Add a preliminary read to a locked report."""
    take(work, report, Event.PRELIM)
    groups = site_groups(work.session, report.site_id)
    if reason := refuse_prelim({name: _as_rule(row) for name, row in groups.items()}, group, tag):
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
            read_by=person(work, report.site_id, reader_id),
            document=document_json(report),
            content_text=report.content_text,
        )
    )
    feed.announce(work, report, ChangeEvent.REPORT_PRELIMED)
    return report


def site_groups(session: Session, site_id: str) -> dict[str, PrelimGroup]:
    """Return a site's prelim groups by name."""
    rows = session.exec(select(PrelimGroup).where(PrelimGroup.site_id == site_id))
    return {row.name: row for row in rows}


def _as_rule(row: PrelimGroup) -> Group:
    return Group(row.name, frozenset(row.tags), row.configured)


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
        Read(
            read.read_at,
            read.read_by_id,
            read.reviewed_at is not None,
            read.withdrawn_at is not None,
        )
        for read in reads
    ]
    for index in reviewed_by(seen, reviewer_id):
        reads[index].reviewed_at = work.now
        reads[index].reviewed_by = person(work, report.site_id, reviewer_id)
        work.session.add(reads[index])


@dataclass(frozen=True, slots=True)
class Waiting:
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


def waiting(session: Session, site_id: str, group: str, tag: str, now: int) -> list[Waiting]:
    """
    Return the reports that wait in a group and tag, the longest-waiting first.

    Raise PrelimNotFound for a group or tag that the site does not have.
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
        )
        .order_by(col(PrelimRead.read_at), col(PrelimRead.pk))
    )
    first: dict[int, int] = {}
    for report_pk, read_at in rows:
        first.setdefault(report_pk, read_at)
    return _with_records(session, first, now)


def _with_records(session: Session, first: Mapping[int, int], now: int) -> list[Waiting]:
    by_key = reports_by_key(session, list(first))
    reports: Sequence[Report] = [by_key[key] for key in first if key in by_key]
    records = status_records(session, reports, now)
    return [
        Waiting(record, first[key_of(report)])
        for record, report in zip(records, reports, strict=True)
    ]
