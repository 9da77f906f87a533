"""
DICOM structured reports and key images of a report.

Files arrive checked and parsed. Each is stored once per report, and the text of structured reports
becomes key findings while the report is unedited.

Structured reports are compared with the patient of their order. A file of another patient, and a
second content of one SOP instance, is set aside: it stays with the report as evidence, but its text
and tags are not used. A file of this patient with another name or birth date is used, and
clinicalInfo overrides the value. The response has a warning, the audit trail records it, and the
page shows a notice.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from sqlalchemy import delete
from sqlalchemy import select as select_columns
from sqlalchemy.orm import QueryableAttribute, defer
from sqlmodel import Session, col, select

from bridge.contract import OrderKey, ReportStatus
from bridge.contract.errors import ErrorCode
from bridge.contract.requests import UpdateMode
from bridge.engine.errors import EngineError
from bridge.engine.launch import Attachment, FileWarning, LaunchInput, LaunchWarning, file_lists
from bridge.engine.launch_parser import fill_tags
from bridge.engine.records.tables import PatientPointer, Report, ReportFile, ReportOrder, metadata
from bridge.engine.rules.lifecycle import FileKind, LifecycleEvent
from bridge.engine.rules.patients import BIRTH_DATE, MRN, NAME, compare_patient
from bridge.engine.rules.text.document import MAX_CHARACTERS, MAX_NODES
from bridge.engine.rules.text.key_findings import Groups
from bridge.engine.service import change_feed
from bridge.engine.service.launch.registration import join_texts, rewrite
from bridge.engine.service.report_lookup import key_of, lock_report, lock_report_by_id, orders_of
from bridge.engine.service.report_status import has_content
from bridge.engine.service.report_transitions import apply_event
from bridge.engine.service.signing.lease import Editor
from bridge.engine.service.work import ChangeEvent, Work

FILES = metadata.tables[str(ReportFile.__tablename__)]
_KnownFiles = dict[tuple[str, ...], ReportFile]
_BYTES = cast("QueryableAttribute[bytes]", ReportFile.data)


@dataclass(frozen=True, slots=True)
class FileUpdate:
    report: Report
    warnings: tuple[FileWarning, ...]


def update_structured_reports(
    work: Work, identity: OrderKey, files: Sequence[Attachment], mode: UpdateMode
) -> FileUpdate:
    """
    Replace or extend the structured reports of an unsigned report.

    Files of another patient are set aside; if all are, no existing file is replaced.
    """
    if not files:
        raise EngineError(ErrorCode.NO_FILES, pointer="/dicomSR")
    found = lock_report(work, identity)
    report = found.report
    apply_event(work, report, LifecycleEvent.UPDATE_FILES)
    replaces = mode is UpdateMode.REPLACE
    files = screen_files(work, identity, found.order, files, replaces=replaces)
    accepted = any(file.kind is FileKind.STRUCTURED_REPORT for file in files)
    if replaces and accepted:
        _delete(work, report, FileKind.STRUCTURED_REPORT, FileKind.SET_ASIDE)
    attach(work, report, files, found.order)
    if report.status is ReportStatus.DRAFT:  # a preliminary read keeps its text
        refresh_findings(work, report)
    warnings = warnings_about(files)
    announce_files(work, report, warnings)
    return FileUpdate(report, warnings)


def announce_files(work: Work, report: Report, warnings: Sequence[FileWarning]) -> None:
    codes = list(dict.fromkeys(warning.warning.value for warning in warnings))
    more: dict[str, Any] = {"warnings": codes, **file_lists(warnings)} if warnings else {}
    change_feed.announce(work, report, ChangeEvent.REPORT_FILES_UPDATED, **more)


def _delete(work: Work, report: Report, *kinds: FileKind) -> None:
    work.session.exec(
        delete(ReportFile).where(
            col(ReportFile.report_pk) == key_of(report), col(ReportFile.kind).in_(kinds)
        )
    )


def attach(work: Work, report: Report, files: Sequence[Attachment], order: ReportOrder) -> int:
    """
    Add the files of an order to its report; return how many are new there.

    A file that the report has already, by content or SOP instance, is assigned to this order too. A
    file that is now accepted is no longer set aside. A file that is now set aside is removed from
    the accepted ones, with its text.
    """
    work.session.flush()
    report_pk, order_pk = key_of(report), order.pk or 0
    known = _known(work, report_pk)
    kept = {attachment.sha256 for attachment in files if attachment.kind is FileKind.SET_ASIDE}
    added, withdrawn = 0, False
    # Set-aside files come first, so that no accepted file is matched with a row that they remove.
    for file in sorted(files, key=lambda other: other.kind is not FileKind.SET_ASIDE):
        file_keys = _file_keys(file.kind, file.sha256, file.sop_instance_uid)
        row = next((known[key] for key in file_keys if key in known), None)
        if row is None:
            row = _row(work, report_pk, file)
            known.update(dict.fromkeys(file_keys, row))
            added += 1
        if file.kind is FileKind.STRUCTURED_REPORT:
            _accept(work, known, row, file, kept)
        if file.kind is FileKind.SET_ASIDE:
            withdrawn |= _withdraw_accepted(work, known, file)
        _add_orders(work, row, [order_pk])
    work.session.flush()
    if added:
        _require_editable(structured_texts(work, report))
    # An order that was never opened has no text, and gets its first one when it is opened.
    unassigned = report.status is ReportStatus.ORDERED and has_content(report)
    if withdrawn and (unassigned or report.status is ReportStatus.DRAFT):
        refresh_findings(work, report, withdrawn=True)
    return added


def _accept(
    work: Work, known: _KnownFiles, row: ReportFile, file: Attachment, kept: Collection[str]
) -> None:
    for key in _file_keys(FileKind.SET_ASIDE, file.sha256, file.sop_instance_uid):
        old = known.get(key)
        if old is None or old.sha256 in kept:
            continue
        del known[key]
        work.session.delete(old)
    if row.details.get("overridden") != file.details.get("overridden"):
        row.details = {**row.details, "overridden": file.details.get("overridden")}


def _withdraw_accepted(work: Work, known: _KnownFiles, file: Attachment) -> bool:
    """Delete the accepted row of a file that is now set aside; True if there was one."""
    row = known.get((FileKind.STRUCTURED_REPORT, file.sha256))
    if row is None:
        return False
    for key in _file_keys(row.kind, row.sha256, row.sop_instance_uid):
        known.pop(key, None)
    work.session.delete(row)
    return True


def _require_editable(texts: Sequence[str]) -> None:
    """Raise EngineError for texts with which the report could not be saved any more."""
    size, lines = sum(map(len, texts)), sum(text.count("\n") + 1 for text in texts)
    if size > MAX_CHARACTERS // 2 or lines > MAX_NODES // 2:
        raise EngineError(ErrorCode.TOO_MUCH_TEXT, pointer="/dicomSR")


def has_new(work: Work, report_pk: int, files: Sequence[Attachment]) -> bool:
    known = _known(work, report_pk)
    return any(
        known.keys().isdisjoint(_file_keys(file.kind, file.sha256, file.sop_instance_uid))
        for file in files
    )


def _known(work: Work, report_pk: int) -> _KnownFiles:
    """Return a report's files by kind and content or SOP instance; their bytes are not read."""
    query = select(ReportFile).where(ReportFile.report_pk == report_pk)
    rows = work.session.exec(query.options(defer(_BYTES))).all()
    return {
        key: row for row in rows for key in _file_keys(row.kind, row.sha256, row.sop_instance_uid)
    }


def _file_keys(kind: FileKind, sha256: str, instance: str | None) -> list[tuple[str, ...]]:
    """Return the keys by which `_known` finds a file: its content, and its SOP instance."""
    return [(kind, sha256), *([(kind, "instance", instance)] if instance else [])]


def _add_orders(work: Work, row: ReportFile, orders: Sequence[int]) -> None:
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
    Replace the report's text with that of its structured reports, unless it was edited.

    A text that still equals the key findings has not been edited. `withdrawn` says that a file was
    removed: its text is removed even if no other file has one.
    """
    if report.content_text not in ("", report.key_findings):
        return False
    if not withdrawn and not structured_texts(work, report):
        return False
    rewrite(work, report, initial_text(work, report), measurement_groups(work, key_of(report)))
    work.session.add(report)
    return True


def initial_text(work: Work, report: Report) -> str:
    """Return the initial text of a report: key findings of its orders, then SR files."""
    orders = orders_of(work.session, key_of(report))
    findings = [str(order.tags.get("KeyFindings", "")) for order in orders]
    return join_texts(*findings, *structured_texts(work, report))


def structured_texts(work: Work, report: Report) -> list[str]:
    rows = work.session.exec(
        select(ReportFile.details)
        .where(
            ReportFile.report_pk == key_of(report), ReportFile.kind == FileKind.STRUCTURED_REPORT
        )
        .order_by(col(ReportFile.pk))
    )
    texts = [str(details.get("text", "")) for details in rows]
    return [text for text in texts if text.strip()]


def measurement_groups(work: Work, report_pk: int) -> Groups:
    rows = work.session.exec(
        select(ReportFile.details).where(
            ReportFile.report_pk == report_pk, ReportFile.kind == FileKind.STRUCTURED_REPORT
        )
    )
    return groups_in(rows)


def groups_of_page(work: Work, _: Editor, report_id: str) -> Groups:
    return measurement_groups(work, key_of(lock_report_by_id(work, report_id)))


def groups_in(files: Iterable[Mapping[str, Any]]) -> Groups:
    """Return the measurement groups in the details of files; older files have none."""
    return {
        group["sentence"]: tuple(group["about"])
        for details in files
        for group in details.get("groups", ())
    }


def move_files(work: Work, old: int, new: int, new_order: ReportOrder | None = None) -> None:
    """
    Move the files of one report to another; files that both have are merged.

    The files keep their orders, or are assigned to `new_order` if their orders are deleted.
    """
    work.session.flush()
    known = _known(work, new)
    for file in _known(work, old).values():
        orders = [new_order.pk or 0] if new_order else file.orders
        twin = known.get((file.kind, file.sha256))
        if twin is None:
            file.report_pk, file.orders = new, orders
            work.session.add(file)
        else:
            _add_orders(work, twin, orders)
    work.session.flush()


def split_files(work: Work, order: ReportOrder, old: int, new: int) -> None:
    """
    Move the files of an order to another report; files of several orders are copied.

    The rows are inserted again in their previous order.
    """
    work.session.flush()
    order_pk = order.pk or 0
    query = select(ReportFile).where(ReportFile.report_pk == old).order_by(col(ReportFile.pk))
    for file in work.session.exec(query).all():
        if order_pk not in file.orders:
            continue
        copy = file.model_dump(exclude={"pk", "report_pk", "orders"})
        work.session.add(ReportFile(**copy, report_pk=new, orders=[order_pk]))
        if others := [own for own in file.orders if own != order_pk]:
            file.orders = others
        else:
            work.session.delete(file)
    work.session.flush()


def list_files(work: Work, _: Editor, report_id: str) -> list[dict[str, Any]]:
    """Return the files shown beside a report's text: SR measurements and key images."""
    report_pk = key_of(lock_report_by_id(work, report_id))
    rows = work.connection.execute(
        select_columns(FILES.c.pk, FILES.c.kind, FILES.c.media_type, FILES.c.name, FILES.c.details)
        .where(FILES.c.report_pk == report_pk)
        .order_by(FILES.c.pk)
    )
    return [
        {
            "id": row.pk,
            "kind": FileKind(row.kind).value,
            "mediaType": row.media_type,
            "name": row.name,
            **{name: value for name, value in row.details.items() if name != "groups"},
        }
        for row in rows
    ]


MAX_TEXTS: Final = 2_000_000
"""Characters of the texts of a report's structured reports in one response."""


def structured_reports(session: Session, report: Report) -> list[dict[str, Any]]:
    """
    Return the structured reports of a report with their texts, also those that were set aside.

    The texts have at most MAX_TEXTS characters together; `text` is None for those that do not fit.
    """
    rows = session.connection().execute(
        select_columns(FILES.c.kind, FILES.c.details)
        .where(FILES.c.report_pk == key_of(report), FILES.c.kind != FileKind.KEY_IMAGE)
        .order_by(FILES.c.pk)
    )
    left, found = MAX_TEXTS, list[dict[str, Any]]()
    for kind, details in rows:
        text = str(details.get("text", ""))
        left -= len(text)
        found.append(
            {
                "title": details.get("title", ""),
                "text": text if left >= 0 else None,
                "setAside": kind == FileKind.SET_ASIDE,
            }
        )
    return found


def list_file_notices(work: Work, report: Report) -> dict[str, list[dict[str, Any]]]:
    """Return title and tags of the files that were set aside, and of those with another value."""
    rows = work.connection.execute(
        select_columns(FILES.c.kind, FILES.c.details)
        .where(FILES.c.report_pk == key_of(report), FILES.c.kind != FileKind.KEY_IMAGE)
        .order_by(FILES.c.pk)
    ).all()
    overridden = [row.details for row in rows if row.details.get("overridden")]
    return {
        "setAside": [dict(row.details) for row in rows if row.kind == FileKind.SET_ASIDE],
        "overridden": [
            {"title": details.get("title", ""), "overridden": details["overridden"]}
            for details in overridden
        ],
    }


def read_image(work: Work, _: Editor, report_id: str, pk: int) -> tuple[str, bytes]:
    """Return the media type and the bytes of a key image; raise `NotFound`."""
    report_pk = key_of(lock_report_by_id(work, report_id))
    found = work.session.exec(
        select(ReportFile).where(
            ReportFile.pk == pk,
            ReportFile.report_pk == report_pk,
            ReportFile.kind == FileKind.KEY_IMAGE,
        )
    ).first()
    if found is None:
        raise EngineError(ErrorCode.NOT_FOUND)
    return found.media_type, found.data


@dataclass(frozen=True, slots=True)
class _Patient:
    """Known identifiers, names and birth dates of a patient; several values are alternatives."""

    mrns: frozenset[str]
    names: tuple[str, ...]
    birth_dates: tuple[str, ...]
    id_is_given: bool = True

    def extended(self, file: Attachment) -> "_Patient":
        """Add values that only the file has: the next file must match them."""
        return replace(
            self,
            names=self.names or _values([file.tags], NAME),
            birth_dates=self.birth_dates or _values([file.tags], BIRTH_DATE),
        )


def screen_launch(work: Work, request: LaunchInput, identity: OrderKey) -> LaunchInput:
    """
    Return the launch with the files of another patient set aside, and without their tags.

    Raise `EngineError` if only such a file has an identity tag of the order.
    """
    if not any(attachment.kind is FileKind.STRUCTURED_REPORT for attachment in request.attachments):
        return request
    own_tags = {name: value for name, value in request.tags.items() if name not in request.filled}
    known = _known_patient(work, request.identity.mrn, identity, own_tags)
    patient = replace(known, id_is_given=MRN in own_tags)
    stored = _stored_contents(work, identity)
    files = _set_repeated_aside(_screened(patient, request.attachments), stored)
    accepted = [file for file in files if file.kind is FileKind.STRUCTURED_REPORT]
    order_tags = {"PatientMRN": request.identity.mrn, "Accession": request.identity.accession}
    for name, value in order_tags.items():
        if name not in own_tags:
            _require_source(name, value, accepted)
    tags = fill_tags(own_tags, accepted)
    if patient.names and NAME not in own_tags:  # the file may spell the name in another way
        tags.pop(NAME, None)
    tags |= order_tags
    filled = frozenset(tags.keys() - own_tags.keys())
    return replace(request, tags=tags, filled=filled, attachments=files)


def _require_source(name: str, value: str, accepted: Sequence[Attachment]) -> None:
    """Raise `EngineError` if no accepted file has this value of an identity tag."""
    if all(file.tags.get(name) != value for file in accepted):
        detail = f"{name} is missing from clinicalInfo and from the patient's DICOM SR files"
        raise EngineError(ErrorCode.MISSING_TAG, detail, pointer=f"/clinicalInfo/{name}")


def screen_files(
    work: Work,
    identity: OrderKey,
    order: ReportOrder,
    files: Sequence[Attachment],
    *,
    replaces: bool,
) -> tuple[Attachment, ...]:
    """Return the files for a stored order; `replaces`: they replace the files that it has."""
    current = OrderKey(order.site_id, order.mrn, order.accession)
    screened = _screened(_known_patient(work, identity.mrn, current, {}), files)
    return _set_repeated_aside(screened, {} if replaces else _stored_contents(work, current))


def warnings_about(files: Iterable[Attachment]) -> tuple[FileWarning, ...]:
    found = []
    for file in files:
        contradicts = tuple(file.details.get("contradicts", ()))
        overridden = tuple(file.details.get("overridden", ()))
        if file.kind is FileKind.SET_ASIDE:
            warning = (
                LaunchWarning.SR_OTHER_PATIENT if contradicts else LaunchWarning.SR_SECOND_VERSION
            )
        elif overridden:
            warning = LaunchWarning.SR_OVERRIDDEN
        else:
            continue
        uid = file.sop_instance_uid or ""
        found.append(FileWarning(warning, file.position, uid, contradicts or overridden))
    return tuple(sorted(found, key=lambda finding: finding.position))


def _known_patient(
    work: Work, requested_mrn: str, identity: OrderKey, own_tags: Mapping[str, str]
) -> _Patient:
    rows = work.session.exec(
        select(ReportOrder.accession, ReportOrder.tags).where(
            ReportOrder.site_id == identity.site, ReportOrder.mrn == identity.mrn
        )
    ).all()
    stored = [tags for accession, tags in rows if accession == identity.accession]
    others = [tags for _, tags in rows]
    values = {
        tag: next(filter(None, (_values(known, tag) for known in ([own_tags], stored, others))), ())
        for tag in (NAME, BIRTH_DATE)
    }
    priors = work.session.exec(
        select(PatientPointer.prior_mrn).where(
            PatientPointer.site_id == identity.site, col(PatientPointer.mrn) == identity.mrn
        )
    ).all()
    mrns = frozenset({requested_mrn.strip(), identity.mrn.strip(), *priors})
    return _Patient(mrns, values[NAME], values[BIRTH_DATE])


def _values(orders: Iterable[Mapping[str, object]], tag: str) -> tuple[str, ...]:
    values = (str(tags.get(tag) or "") for tags in orders)
    return tuple(dict.fromkeys(value for value in values if value.strip("^= ")))


def _screened(patient: _Patient, files: Sequence[Attachment]) -> tuple[Attachment, ...]:
    """
    Set files of another patient aside; files with the patient's own id are checked first.

    An accepted file loses the tags that differ, and lists them as `overridden`.
    """
    screened = dict(enumerate(files))
    reports = [index for index, file in screened.items() if file.kind is FileKind.STRUCTURED_REPORT]
    for index in sorted(reports, key=lambda at: files[at].tags.get(MRN) not in patient.mrns):
        file = files[index]
        compared = compare_patient(
            file.tags,
            mrns=patient.mrns,
            names=patient.names,
            birth_dates=patient.birth_dates,
            id_is_given=patient.id_is_given,
        )
        if compared.other_patient:
            screened[index] = _set_aside(file, compared.tags)
            continue
        if compared.tags:
            tags = {tag: value for tag, value in file.tags.items() if tag not in compared.tags}
            details = {**file.details, "overridden": list(compared.tags)}
            screened[index] = file = replace(file, tags=tags, details=details)
        patient = patient.extended(file)
    return tuple(screened.values())


def _set_aside(file: Attachment, contradicts: Sequence[str]) -> Attachment:
    details = {"title": file.details.get("title", ""), "contradicts": list(contradicts)}
    return replace(file, kind=FileKind.SET_ASIDE, details=details, tags={})


def _stored_contents(work: Work, identity: OrderKey) -> dict[str, str]:
    """Return the digests of the structured reports that the order's report has, by SOP instance."""
    rows = work.session.exec(
        select(ReportFile.sop_instance_uid, ReportFile.sha256)
        .join(ReportOrder, col(ReportOrder.report_pk) == col(ReportFile.report_pk))
        .where(
            ReportOrder.site_id == identity.site,
            ReportOrder.mrn == identity.mrn,
            ReportOrder.accession == identity.accession,
            ReportFile.kind == FileKind.STRUCTURED_REPORT,
        )
    )
    return {instance: sha256 for instance, sha256 in rows if instance}


def _set_repeated_aside(
    files: Sequence[Attachment], stored: Mapping[str, str]
) -> tuple[Attachment, ...]:
    """Set an accepted file aside if its SOP instance has another content already."""
    contents = dict(stored)
    screened = []
    for file in files:
        is_report = file.kind is FileKind.STRUCTURED_REPORT and file.sop_instance_uid
        repeats = is_report and contents.setdefault(is_report, file.sha256) != file.sha256
        screened.append(_set_aside(file, ()) if repeats else file)
    return tuple(screened)
