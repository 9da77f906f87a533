"""
Compares DICOM structured reports with the patient of their order.

A file of another patient, and a second content of one SOP instance, is set aside: it stays with the
report as evidence, but its text and tags are not used. A file of this patient with another name or
birth date is used, and clinicalInfo overrides the value. The response has a warning, the audit
trail records it, and the page shows a notice.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlmodel import col, select

from bridge.engine.errors import BadLaunch
from bridge.engine.launch import Attachment, FileWarning, LaunchInput, LaunchWarning
from bridge.engine.launch_parser import fill_tags
from bridge.engine.records.tables import PatientPointer, ReportFile, ReportOrder
from bridge.engine.rules.lifecycle import FileKind
from bridge.engine.rules.order import OrderId
from bridge.engine.rules.patients import BIRTH_DATE, MRN, NAME, compare_patient
from bridge.engine.service.work import Work


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


def screen_launch(work: Work, request: LaunchInput, identity: OrderId) -> LaunchInput:
    """
    Return the launch with the files of another patient set aside, and without their tags.

    Raise `BadLaunch` if only such a file has an identity tag of the order.
    """
    if not any(each.kind is FileKind.STRUCTURED_REPORT for each in request.attachments):
        return request
    own_tags = {name: value for name, value in request.tags.items() if name not in request.filled}
    known = _known_patient(work, request.identity.mrn, identity, own_tags)
    patient = replace(known, id_is_given=MRN in own_tags)
    stored = _stored_contents(work, identity)
    files = _set_repeated_aside(_screened(patient, request.attachments), stored)
    accepted = [each for each in files if each.kind is FileKind.STRUCTURED_REPORT]
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
    """Raise `BadLaunch` if no accepted file has this value of an identity tag."""
    if all(file.tags.get(name) != value for file in accepted):
        detail = f"{name} is missing from clinicalInfo and from the patient's DICOM SR files"
        raise BadLaunch("missing_tag", detail, pointer=f"/clinicalInfo/{name}")


def screen_files(
    work: Work,
    identity: OrderId,
    order: ReportOrder,
    files: Sequence[Attachment],
    *,
    replaces: bool,
) -> tuple[Attachment, ...]:
    """Return the files for a stored order; `replaces`: they replace the files that it has."""
    current = OrderId(order.site_id, order.mrn, order.accession)
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
    return tuple(sorted(found, key=lambda each: each.position))


def _known_patient(
    work: Work, requested_mrn: str, identity: OrderId, own_tags: Mapping[str, str]
) -> _Patient:
    rows = work.session.exec(
        select(ReportOrder.accession, ReportOrder.tags).where(
            ReportOrder.site_id == identity.site_id, ReportOrder.mrn == identity.mrn
        )
    ).all()
    stored = [tags for accession, tags in rows if accession == identity.accession]
    others = [tags for _, tags in rows]
    values = {
        tag: next(filter(None, (_values(each, tag) for each in ([own_tags], stored, others))), ())
        for tag in (NAME, BIRTH_DATE)
    }
    priors = work.session.exec(
        select(PatientPointer.prior_mrn).where(
            PatientPointer.site_id == identity.site_id, col(PatientPointer.mrn) == identity.mrn
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
    for index in sorted(reports, key=lambda each: files[each].tags.get(MRN) not in patient.mrns):
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


def _stored_contents(work: Work, identity: OrderId) -> dict[str, str]:
    """Return the digests of the structured reports that the order's report has, by SOP instance."""
    rows = work.session.exec(
        select(ReportFile.sop_instance_uid, ReportFile.sha256)
        .join(ReportOrder, col(ReportOrder.report_pk) == col(ReportFile.report_pk))
        .where(
            ReportOrder.site_id == identity.site_id,
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
