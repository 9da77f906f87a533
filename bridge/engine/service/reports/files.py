"""DICOM structured reports and key images of a report; files of another patient are set aside.

A file that contradicts its order stays with the report as evidence. Neither its text nor its tags
enter the report; the launch is answered with a warning, and the page shows a notice.

The files come checked and read; here they are kept, each once, and their text becomes findings
where nobody has written anything yet.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, cast

from sqlalchemy import delete
from sqlalchemy import select as select_columns
from sqlalchemy.orm import QueryableAttribute, defer
from sqlmodel import col, select

from bridge.engine.errors import NotFound, RuleBroken
from bridge.engine.launch.outcome import SetAsideFile
from bridge.engine.launch.parser import fill_tags
from bridge.engine.launch.request import Attachment, LaunchRequest
from bridge.engine.records.tables import PatientPointer, Report, ReportFile, ReportOrder, metadata
from bridge.engine.rules.identity import OrderId
from bridge.engine.rules.lifecycle import ReportEvent
from bridge.engine.rules.patients import BIRTH_DATE, MRN, NAME, contradictions
from bridge.engine.rules.reasons import Reason
from bridge.engine.rules.status import FileKind, Status
from bridge.engine.service import change_feed
from bridge.engine.service.launch.first_text import joined, rewrite
from bridge.engine.service.lifecycle import apply_event
from bridge.engine.service.report_lookup import key_of, lock_report, lock_report_by_id, orders_of
from bridge.engine.service.signing.lease import Editor
from bridge.engine.service.work import ChangeEvent, Work


@dataclass(frozen=True, slots=True)
class _Patient:
    """What is known of a patient; several values are alternatives."""

    mrns: frozenset[str]
    names: tuple[str, ...]
    birth_dates: tuple[str, ...]

    def extended(self, file: Attachment) -> "_Patient":
        """Take over what only the file says: the next file has to agree with it."""
        return replace(
            self,
            names=self.names or (file.tags.get(NAME, ""),),
            birth_dates=self.birth_dates or (file.tags.get(BIRTH_DATE, ""),),
        )


def screen_launch(work: Work, request: LaunchRequest, identity: OrderId) -> LaunchRequest:
    """Return the launch with the files of another patient set aside, and without their tags."""
    if not any(each.kind is FileKind.STRUCTURED_REPORT for each in request.attachments):
        return request
    own = {name: value for name, value in request.tags.items() if name not in request.filled}
    patient = _known_orders(work, request.identity.mrn, identity, own)
    files = _judged(patient, request.attachments)
    accepted = [each for each in files if each.kind is FileKind.STRUCTURED_REPORT]
    tags = fill_tags(own, accepted)
    if any(patient.names) and NAME not in own:  # the file may spell the known name differently
        tags.pop(NAME, None)
    tags |= {"PatientMRN": request.identity.mrn, "Accession": request.identity.accession}
    filled = frozenset(tags.keys() - own.keys())
    return replace(request, tags=tags, filled=filled, attachments=files)


def screen_files(
    work: Work, identity: OrderId, order: ReportOrder, files: Sequence[Attachment]
) -> tuple[Attachment, ...]:
    """Return the files for an order that exists, those of another patient set aside."""
    current = OrderId(order.site_id, order.mrn, order.accession)
    return _judged(_known_orders(work, identity.mrn, current, {}), files)


def set_aside(files: Iterable[Attachment]) -> tuple[SetAsideFile, ...]:
    """Return which of these files were set aside, and why."""
    return tuple(
        SetAsideFile(each.sop_instance_uid or "", tuple(each.details["contradicts"]))
        for each in files
        if each.kind is FileKind.SET_ASIDE
    )


def _known_orders(work: Work, named: str, identity: OrderId, own: Mapping[str, str]) -> _Patient:
    """Return the patient by the request's own tags, else by the order's, else by other orders'."""
    rows = work.session.exec(
        select(ReportOrder.accession, ReportOrder.tags).where(
            ReportOrder.site_id == identity.site_id, ReportOrder.mrn == identity.mrn
        )
    ).all()
    stored = [tags for accession, tags in rows if accession == identity.accession]
    others = [tags for _, tags in rows]
    values = {
        tag: next(filter(None, (_values(each, tag) for each in ([own], stored, others))), ())
        for tag in (NAME, BIRTH_DATE)
    }
    priors = work.session.exec(
        select(PatientPointer.prior_mrn).where(
            PatientPointer.site_id == identity.site_id, col(PatientPointer.mrn) == identity.mrn
        )
    ).all()
    mrns = frozenset({named.strip(), identity.mrn.strip(), *priors})
    return _Patient(mrns, values[NAME], values[BIRTH_DATE])


def _values(orders: Iterable[Mapping[str, object]], tag: str) -> tuple[str, ...]:
    values = (str(tags.get(tag) or "") for tags in orders)
    return tuple(dict.fromkeys(value for value in values if value.strip("^= ")))


def _judged(patient: _Patient, files: Sequence[Attachment]) -> tuple[Attachment, ...]:
    """Set files aside that contradict the patient; files with the patient's own id come first."""
    judged = dict(enumerate(files))
    reports = [place for place, file in judged.items() if file.kind is FileKind.STRUCTURED_REPORT]
    for place in sorted(reports, key=lambda each: files[each].tags.get(MRN) not in patient.mrns):
        file = files[place]
        found = contradictions(
            file.tags,
            mrns=patient.mrns,
            names=patient.names,
            birth_dates=patient.birth_dates,
        )
        if found:
            details = {"title": file.details.get("title", ""), "contradicts": list(found)}
            judged[place] = replace(file, kind=FileKind.SET_ASIDE, details=details, tags={})
        else:
            patient = patient.extended(file)
    return tuple(judged.values())


FILES = metadata.tables[str(ReportFile.__tablename__)]
_BYTES = cast("QueryableAttribute[bytes]", ReportFile.data)


class UpdateMode(StrEnum):
    """What becomes of the structured reports that are already there."""

    REPLACE = "replace"
    APPEND = "append"


@dataclass(frozen=True, slots=True)
class FileUpdate:
    """A report whose files were updated, and the files that were set aside."""

    report: Report
    set_aside: tuple[SetAsideFile, ...]


def update_structured_reports(
    work: Work, identity: OrderId, files: Sequence[Attachment], mode: UpdateMode
) -> FileUpdate:
    """
    Replace or extend the structured reports of an unsigned report.

    Files of another patient are set aside; where all are, nothing that is there is replaced.
    """
    if not files:
        raise RuleBroken(Reason.NO_FILES, pointer="/dicomSR")
    found = lock_report(work, identity)
    report = found.report
    apply_event(work, report, ReportEvent.UPDATE_FILES)
    files = screen_files(work, identity, found.order, files)
    accepted = any(each.kind is FileKind.STRUCTURED_REPORT for each in files)
    if mode is UpdateMode.REPLACE and accepted:
        _delete(work, report, FileKind.STRUCTURED_REPORT, FileKind.SET_ASIDE)
    attach(work, report, files, found.order)
    if report.status is Status.DRAFT:  # what was read, if only preliminarily, keeps its words
        refresh_findings(work, report)
    change_feed.announce(work, report, ChangeEvent.REPORT_FILES_UPDATED)
    return FileUpdate(report, set_aside(files))


def _delete(work: Work, report: Report, *kinds: FileKind) -> None:
    work.session.exec(
        delete(ReportFile).where(
            col(ReportFile.report_pk) == key_of(report), col(ReportFile.kind).in_(kinds)
        )
    )


def attach(work: Work, report: Report, files: Sequence[Attachment], order: ReportOrder) -> int:
    """
    Add what an order brings to its report; count what is new there.

    What the report has already, by content or by SOP instance, is the order's from now on, too.
    A file that is accepted is not set aside any more, and one that is set aside, having been
    accepted before, is taken out again with its text.
    """
    work.session.flush()
    own, by = key_of(report), order.pk or 0
    known = _known(work, own)
    added, withdrawn = 0, False
    for file in files:
        marks = _marks(file.kind, file.sha256, file.sop_instance_uid)
        row = next((known[mark] for mark in marks if mark in known), None)
        if row is None:
            row = _row(work, own, file)
            known.update(dict.fromkeys(marks, row))
            added += 1
        for mark in _marks(FileKind.SET_ASIDE, file.sha256, file.sop_instance_uid):
            if file.kind is FileKind.STRUCTURED_REPORT and (old := known.pop(mark, None)):
                work.session.delete(old)
        if file.kind is FileKind.SET_ASIDE:
            twin = known.pop((FileKind.STRUCTURED_REPORT, file.sha256), None)
            if twin is not None:
                work.session.delete(twin)
                withdrawn = True
        _belongs(work, row, [by])
    work.session.flush()
    if withdrawn and report.status is Status.DRAFT:
        refresh_findings(work, report, withdrawn=True)
    return added


def has_new(work: Work, report_pk: int, files: Sequence[Attachment]) -> bool:
    """Tell whether any of these files is not among those of a report."""
    known = _known(work, report_pk)
    return any(
        known.keys().isdisjoint(_marks(file.kind, file.sha256, file.sop_instance_uid))
        for file in files
    )


def _known(work: Work, report_pk: int) -> dict[tuple[str, ...], ReportFile]:
    """Return a report's files by what they are told apart by; their bytes are not read."""
    query = select(ReportFile).where(ReportFile.report_pk == report_pk)
    rows = work.session.exec(query.options(defer(_BYTES))).all()
    return {
        mark: row for row in rows for mark in _marks(row.kind, row.sha256, row.sop_instance_uid)
    }


def _marks(kind: FileKind, sha256: str, instance: str | None) -> list[tuple[str, ...]]:
    return [(kind, sha256), *([(kind, "instance", instance)] if instance else [])]


def _belongs(work: Work, row: ReportFile, orders: Sequence[int]) -> None:
    row.orders = list(dict.fromkeys([*row.orders, *orders]))
    work.session.add(row)


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


def refresh_findings(work: Work, report: Report, *, withdrawn: bool = False) -> bool:
    """
    Make the structured reports' text the report's own, unless somebody has written in it.

    What still equals the findings that it was filled with, nobody has written in. `withdrawn`
    says that a file was taken out: its text goes, also where no other file has one.
    """
    if report.content_text not in ("", report.key_findings):
        return False
    if not withdrawn and not structured_texts(work, report):
        return False
    rewrite(work, report, initial_text(work, report))
    work.session.add(report)
    return True


def initial_text(work: Work, report: Report) -> str:
    """Return what a report begins with: each order's key findings, then what its SR files say."""
    orders = orders_of(work.session, key_of(report))
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


def move_files(work: Work, old: int, new: int, heir: ReportOrder | None = None) -> None:
    """
    Let the files of one report go to another; what both have is kept once, for all orders.

    They stay with the orders that brought them, or are the heir's where those go.
    """
    work.session.flush()
    known = _known(work, new)
    for file in _known(work, old).values():
        orders = [heir.pk or 0] if heir else file.orders
        twin = known.get((file.kind, file.sha256))
        if twin is None:
            file.report_pk, file.orders = new, orders
            work.session.add(file)
        else:
            _belongs(work, twin, orders)
    work.session.flush()


def split_files(work: Work, order: ReportOrder, old: int, new: int) -> None:
    """
    Let an order take what it brought to another report; what others brought, too, stays as well.

    All are written anew: what was brought first stays first.
    """
    work.session.flush()
    own = order.pk or 0
    query = select(ReportFile).where(ReportFile.report_pk == old).order_by(col(ReportFile.pk))
    for file in work.session.exec(query).all():
        if own not in file.orders:
            continue
        copy = file.model_dump(exclude={"pk", "report_pk", "orders"})
        work.session.add(ReportFile(**copy, report_pk=new, orders=[own]))
        if others := [each for each in file.orders if each != own]:
            file.orders = others
        else:
            work.session.delete(file)
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


def list_set_aside(work: Work, report: Report) -> list[dict[str, Any]]:
    """Return title and contradicting tags of the files of another patient."""
    rows = work.connection.execute(
        select_columns(FILES.c.details)
        .where(FILES.c.report_pk == key_of(report), FILES.c.kind == FileKind.SET_ASIDE)
        .order_by(FILES.c.pk)
    )
    return [dict(row.details) for row in rows]


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
