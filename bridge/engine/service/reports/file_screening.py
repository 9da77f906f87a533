"""
Sets aside DICOM structured reports of another patient.

A file that contradicts its order stays with the report as evidence, but its text and tags are not
used. The response has a warning, and the page shows a notice.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlmodel import col, select

from bridge.engine.errors import BadLaunch
from bridge.engine.launch import Attachment, LaunchInput, SetAsideFile
from bridge.engine.launch_parser import fill_tags
from bridge.engine.records.tables import PatientPointer, ReportOrder
from bridge.engine.rules.lifecycle import FileKind
from bridge.engine.rules.order import OrderId
from bridge.engine.rules.patients import BIRTH_DATE, MRN, NAME, contradictions
from bridge.engine.service.work import Work


@dataclass(frozen=True, slots=True)
class _Patient:
    """Known identifiers, names and birth dates of a patient; several values are alternatives."""

    mrns: frozenset[str]
    names: tuple[str, ...]
    birth_dates: tuple[str, ...]

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
    patient = _known_patient(work, request.identity.mrn, identity, own_tags)
    files = _first_versions(_screened(patient, request.attachments))
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
    work: Work, identity: OrderId, order: ReportOrder, files: Sequence[Attachment]
) -> tuple[Attachment, ...]:
    """Return the files for a stored order, with those of another patient set aside."""
    current = OrderId(order.site_id, order.mrn, order.accession)
    return _screened(_known_patient(work, identity.mrn, current, {}), files)


def set_aside(files: Iterable[Attachment]) -> tuple[SetAsideFile, ...]:
    """Return the files that were set aside, with the contradicting tags."""
    return tuple(
        SetAsideFile(each.sop_instance_uid or "", tuple(each.details["contradicts"]))
        for each in files
        if each.kind is FileKind.SET_ASIDE
    )


def _known_patient(
    work: Work, requested_mrn: str, identity: OrderId, own_tags: Mapping[str, str]
) -> _Patient:
    """Return the patient by the request's tags, else the order's, else those of other orders."""
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
    """Set files of another patient aside; files with the patient's own id are checked first."""
    screened = dict(enumerate(files))
    reports = [index for index, file in screened.items() if file.kind is FileKind.STRUCTURED_REPORT]
    for index in sorted(reports, key=lambda each: files[each].tags.get(MRN) not in patient.mrns):
        file = files[index]
        found = contradictions(
            file.tags, mrns=patient.mrns, names=patient.names, birth_dates=patient.birth_dates
        )
        if found:
            details = {"title": file.details.get("title", ""), "contradicts": list(found)}
            screened[index] = replace(file, kind=FileKind.SET_ASIDE, details=details, tags={})
        else:
            patient = patient.extended(file)
    return tuple(screened.values())


def _first_versions(files: Sequence[Attachment]) -> tuple[Attachment, ...]:
    """Keep the first of several accepted versions of one SOP instance."""
    found: dict[tuple[FileKind, str], Attachment] = {}
    for each in files:
        instance = None if each.kind is FileKind.SET_ASIDE else each.sop_instance_uid
        found.setdefault((each.kind, instance or each.sha256), each)
    return tuple(found.values())
