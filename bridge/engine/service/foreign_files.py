"""
DICOM structured reports of another patient: recognized, and set aside.

A file that contradicts its order stays with the report as evidence. Neither its text nor its tags
enter the report; the launch is answered with a warning, and the page shows a notice.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlmodel import col, select

from bridge.engine.launching.outcome import SetAside
from bridge.engine.launching.reading import fill_tags
from bridge.engine.launching.request import Attachment, LaunchRequest
from bridge.engine.records.tables import PatientPointer, ReportOrder
from bridge.engine.rules.file_identity import BIRTH_DATE, MRN, NAME, contradictions
from bridge.engine.rules.identity import Triple
from bridge.engine.rules.status import FileKind
from bridge.engine.service.work import Work


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


def separate(work: Work, request: LaunchRequest, triple: Triple) -> LaunchRequest:
    """Return the launch with the files of another patient set aside, and without their tags."""
    if not any(each.kind is FileKind.STRUCTURED_REPORT for each in request.attachments):
        return request
    own = {name: value for name, value in request.tags.items() if name not in request.filled}
    patient = _known(work, request.triple.mrn, triple, own)
    files = _judged(patient, request.attachments)
    accepted = [each for each in files if each.kind is FileKind.STRUCTURED_REPORT]
    tags = fill_tags(own, accepted)
    if any(patient.names) and NAME not in own:  # the file may spell the known name differently
        tags.pop(NAME, None)
    tags |= {"PatientMRN": request.triple.mrn, "Accession": request.triple.accession}
    filled = frozenset(tags.keys() - own.keys())
    return replace(request, tags=tags, filled=filled, attachments=files)


def separate_files(
    work: Work, triple: Triple, order: ReportOrder, files: Sequence[Attachment]
) -> tuple[Attachment, ...]:
    """Return the files for an order that exists, those of another patient set aside."""
    current = Triple(order.site_id, order.mrn, order.accession)
    return _judged(_known(work, triple.mrn, current, {}), files)


def set_aside(files: Iterable[Attachment]) -> tuple[SetAside, ...]:
    """Return which of these files were set aside, and why."""
    return tuple(
        SetAside(each.sop_instance_uid or "", tuple(each.details["contradicts"]))
        for each in files
        if each.kind is FileKind.SET_ASIDE
    )


def _known(work: Work, named: str, triple: Triple, own: Mapping[str, str]) -> _Patient:
    """Return the patient by the request's own tags, else by the order's, else by other orders'."""
    rows = work.session.exec(
        select(ReportOrder.accession, ReportOrder.tags).where(
            ReportOrder.site_id == triple.site_id, ReportOrder.mrn == triple.mrn
        )
    ).all()
    stored = [tags for accession, tags in rows if accession == triple.accession]
    others = [tags for _, tags in rows]
    values = {
        tag: next(filter(None, (_values(each, tag) for each in ([own], stored, others))), ())
        for tag in (NAME, BIRTH_DATE)
    }
    priors = work.session.exec(
        select(PatientPointer.prior_mrn).where(
            PatientPointer.site_id == triple.site_id, col(PatientPointer.mrn) == triple.mrn
        )
    ).all()
    mrns = frozenset({named.strip(), triple.mrn.strip(), *priors})
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
