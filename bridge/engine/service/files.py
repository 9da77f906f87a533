"""
The DICOM structured reports and key images of a report (interface document, update-dicomsr).

The files come checked and read; here they are kept, each once, and their text becomes findings
where nobody has written anything yet.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from sqlalchemy import delete
from sqlalchemy import select as select_columns
from sqlmodel import col, select

from bridge.engine.errors import NotFound, RuleBroken
from bridge.engine.launching.request import Attachment
from bridge.engine.records.tables import Report, ReportFile, metadata
from bridge.engine.rules.identity import Triple
from bridge.engine.rules.lifecycle import Event
from bridge.engine.rules.reasons import Reason
from bridge.engine.rules.status import FileKind, Status
from bridge.engine.service import feed
from bridge.engine.service.drafting import joined, rewrite
from bridge.engine.service.finding import group_of, key_of, lock_report, lock_report_by_id
from bridge.engine.service.lease import Editor
from bridge.engine.service.lifecycle import take
from bridge.engine.service.work import ChangeEvent, Work

FILES = metadata.tables[str(ReportFile.__tablename__)]


class UpdateMode(StrEnum):
    """What becomes of the structured reports that are already there."""

    REPLACE = "replace"
    APPEND = "append"


def update_structured_reports(
    work: Work, triple: Triple, files: Sequence[Attachment], mode: UpdateMode
) -> Report:
    """Replace or extend the structured reports of an unsigned report."""
    if not files:
        raise RuleBroken(Reason.NO_FILES, pointer="/dicomSR")
    report = lock_report(work, triple).report
    take(work, report, Event.UPDATE_FILES)
    if mode is UpdateMode.REPLACE:
        work.session.exec(
            delete(ReportFile).where(
                col(ReportFile.report_pk) == key_of(report),
                col(ReportFile.kind) == FileKind.STRUCTURED_REPORT,
            )
        )
    attach(work, report, files)
    if report.status is not Status.ORDERED:
        refresh_findings(work, report)
    feed.announce(work, report, ChangeEvent.REPORT_FILES_UPDATED)
    return report


def attach(work: Work, report: Report, files: Sequence[Attachment]) -> int:
    """Add files that the report does not have yet, by content and by SOP instance; count them."""
    work.session.flush()
    own = key_of(report)
    rows = work.session.exec(
        select(ReportFile.kind, ReportFile.sha256, ReportFile.sop_instance_uid).where(
            ReportFile.report_pk == own
        )
    ).all()
    seen = {(FileKind(kind), sha256) for kind, sha256, _ in rows}
    instances = {uid for _, _, uid in rows if uid}
    added = 0
    for file in files:
        if (file.kind, file.sha256) in seen or file.sop_instance_uid in instances:
            continue
        seen.add((file.kind, file.sha256))
        if file.sop_instance_uid:
            instances.add(file.sop_instance_uid)
        work.session.add(_row(work, own, file))
        added += 1
    work.session.flush()
    return added


def _row(work: Work, report_pk: int, file: Attachment) -> ReportFile:
    return ReportFile(
        report_pk=report_pk,
        kind=file.kind,
        sha256=file.sha256,
        sop_instance_uid=file.sop_instance_uid,
        media_type=file.media_type,
        name=file.name,
        data=file.data,
        details=dict(file.details),
        created_at=work.now,
    )


def refresh_findings(work: Work, report: Report) -> bool:
    """
    Make the structured reports' text the report's own, unless somebody has written in it.

    What still equals the findings that it was filled with, nobody has written in.
    """
    if report.content_text not in ("", report.key_findings):
        return False
    if not structured_texts(work, report):
        return False
    rewrite(work, report, given_text(work, report))
    work.session.add(report)
    return True


def given_text(work: Work, report: Report) -> str:
    """Return what a report begins with: each order's key findings, then what its SR files say."""
    orders = group_of(work.session, key_of(report))
    findings = [str(order.tags.get("KeyFindings", "")) for order in orders]
    return joined(*findings, *structured_texts(work, report))


def structured_texts(work: Work, report: Report) -> list[str]:
    """Return what the structured reports of a report say, in the order they came."""
    rows = work.session.exec(
        select(ReportFile.details)
        .where(
            ReportFile.report_pk == key_of(report), ReportFile.kind == FileKind.STRUCTURED_REPORT
        )
        .order_by(col(ReportFile.pk))
    )
    texts = [str(details.get("text", "")) for details in rows]
    return [text for text in texts if text.strip()]


def move_files(work: Work, old: int, new: int) -> None:
    """Let the files of one report go to another, as far as it does not have them."""
    work.session.flush()
    own = select(ReportFile.kind, ReportFile.sha256).where(ReportFile.report_pk == new)
    known = set(work.session.exec(own).all())
    for file in work.session.exec(select(ReportFile).where(ReportFile.report_pk == old)).all():
        if (file.kind, file.sha256) not in known:
            file.report_pk = new
            work.session.add(file)
    work.session.flush()


def list_files(work: Work, _: Editor, report_id: str) -> list[dict[str, Any]]:
    """Return what stands beside a report's text: what its SR files measured, its key images."""
    own = key_of(lock_report_by_id(work, report_id))
    rows = work.connection.execute(
        select_columns(FILES.c.pk, FILES.c.kind, FILES.c.media_type, FILES.c.name, FILES.c.details)
        .where(FILES.c.report_pk == own)
        .order_by(FILES.c.pk)
    )
    return [
        {
            "id": row.pk,
            "kind": FileKind(row.kind).value,
            "mediaType": row.media_type,
            "name": row.name,
            **row.details,
        }
        for row in rows
    ]


def read_image(work: Work, _: Editor, report_id: str, pk: int) -> tuple[str, bytes]:
    """Return the media type and the bytes of a key image; raise `NotFound`."""
    own = key_of(lock_report_by_id(work, report_id))
    found = work.session.exec(
        select(ReportFile).where(
            ReportFile.pk == pk,
            ReportFile.report_pk == own,
            ReportFile.kind == FileKind.KEY_IMAGE,
        )
    ).first()
    if found is None:
        raise NotFound
    return found.media_type, found.data
