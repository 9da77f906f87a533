"""
Outside reports: reports of a patient that were not made here, with the versions of their senders.

They are priors and nothing else: no list of reports, no change and no release has them, and nobody
edits them. A report belongs to the patient by the number that its message had, so that a merge and
its undo need not move it. A report without a number belongs to the patient of the only order with
its accession, if name and birth date do not contradict.
"""

import hashlib
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from sqlalchemy import and_, or_, update
from sqlmodel import Session, col, select

from bridge.contract import OutsideStatus
from bridge.contract.errors import ErrorCode
from bridge.contract.requests import OutsideReportBody
from bridge.engine.errors import EngineError
from bridge.engine.launch_parser import decode_file
from bridge.engine.records.tables import (
    OutsideFile,
    OutsideReport,
    OutsideVersion,
    PatientPointer,
    Report,
    ReportOrder,
    Site,
)
from bridge.engine.rules.order import Study
from bridge.engine.rules.outside import VersionTimes, is_of_other_patient
from bridge.engine.rules.text.document import from_text, to_json
from bridge.engine.service.report_lookup import (
    follow_pointers,
    key_of,
    lock_patients,
    orders_of,
)
from bridge.engine.service.work import Work
from parsers.pdf import MAX_PDF_BYTES, is_pdf

PREFIX: Final = "outside-"
"""Begins the public ids of outside reports; no other report id has it."""
MAX_REPORTS: Final = 200
MAX_VERSIONS: Final = 50
"""Outside reports of a patient, and versions of a report, that a page shows: the newest ones."""
MAX_TEXTS: Final = 2_000_000
"""Characters of all texts of a patient's outside reports in one response."""
TAGS: Final = (
    "Modality",
    "BodyPartExamined",
    "StudyDescription",
    "ProcedureCode",
    "StudyDate",
    "StudyTime",
    "PatientName",
    "PatientBirthDate",
)


@dataclass(frozen=True, slots=True)
class OutsideDocument:
    """A version as its sender sent it. `mrn` or `accession` is not empty."""

    site_id: str
    mrn: str
    accession: str
    sender: str
    number: str
    parent: str
    status: OutsideStatus
    code: str
    at: int | None
    sent_at: int | None
    title: str
    author: str
    tags: Mapping[str, str]
    text: str = field(repr=False)
    pdfs: Sequence[bytes] = field(repr=False)
    omitted: Sequence[str]

    @property
    def digest(self) -> str:
        """Identifies the content: a retransmission has the same one."""
        parts = (self.number, self.parent, self.status, self.code, self.at, self.title, self.author)
        found = hashlib.sha256()
        for part in (*parts, self.text, *self.omitted):
            found.update(f"{part}\x1f".encode("utf-8", "surrogatepass"))
        for pdf in self.pdfs:
            found.update(pdf)
        return found.hexdigest()

    def hash_of(self, number: str) -> str:
        """Identify a document number of this sender; '' for an empty one."""
        name = f"{self.site_id}\x1f{self.sender}\x1f{number}"
        return hashlib.sha256(name.encode()).hexdigest() if number else ""


def read_document(body: OutsideReportBody) -> OutsideDocument:
    """Return the checked document; raise `EngineError`. Decodes: call it off the event loop."""
    if not body.PatientMRN and not body.Accession:
        raise EngineError(ErrorCode.OUTSIDE_OF_NOBODY, pointer="/PatientMRN")
    pdfs = list[bytes]()
    for index, text in enumerate(body.pdfs):
        left = MAX_PDF_BYTES - sum(map(len, pdfs))
        pdfs.append(decode_file(text, left, f"pdfs[{index}]", f"/pdfs/{index}"))
        if not is_pdf(pdfs[-1]):
            raise EngineError(ErrorCode.BAD_PDF, pointer=f"/pdfs/{index}")
    return OutsideDocument(
        site_id=body.SiteID,
        mrn=body.PatientMRN,
        accession=body.Accession,
        sender=body.sender,
        number=body.number,
        parent=body.parent,
        status=body.reportStatus,
        code=body.statusCode,
        at=body.reportedAt,
        sent_at=body.sentAt,
        title=body.title,
        author=body.author,
        tags={name: str(getattr(body, name)) for name in TAGS},
        text=body.text,
        pdfs=pdfs,
        omitted=body.omitted,
    )


def add_version(work: Work, document: OutsideDocument) -> None:
    """
    Store a version of a report; the same content again changes nothing.

    Raise EngineError if name and birth date contradict the patient, or if the report is known for
    another patient.
    """
    if document.mrn:
        lock_patients(work, document.site_id, [document.mrn])
    _require_patient(work, document)
    report = _report_of(work, document)
    report_pk = report.pk or 0
    if not report.mrn and document.mrn:
        report.mrn = document.mrn
    report.accession = report.accession or document.accession
    known = select(OutsideVersion.pk).where(
        OutsideVersion.outside_pk == report_pk, OutsideVersion.digest == document.digest
    )
    if work.session.exec(known).first() is None:
        report.updated_at = work.now
        version = OutsideVersion(
            outside_pk=report_pk,
            digest=document.digest,
            number=document.number,
            number_hash=document.hash_of(document.number),
            parent_hash=document.hash_of(document.parent),
            status=document.status.value,
            code=document.code,
            at=document.at,
            sent_at=document.sent_at,
            received_at=work.now,
            title=document.title,
            author=document.author,
            tags={name: value for name, value in document.tags.items() if value},
            content_text=document.text,
            omitted=list(document.omitted),
            pdfs=len(document.pdfs),
        )
        work.session.add(version)
        work.session.flush()
        for position, pdf in enumerate(document.pdfs, start=1):
            file = OutsideFile(version_pk=version.pk or 0, position=position, content=pdf)
            work.session.add(file)
    work.session.add(report)
    work.session.flush()


def _require_patient(work: Work, document: OutsideDocument) -> None:
    orders = [order.tags for order in _orders_about(work, document)]
    if orders and is_of_other_patient(document.tags, orders, same_number=bool(document.mrn)):
        raise EngineError(ErrorCode.PATIENT_NAME_MISMATCH, pointer="/PatientName")


def _orders_about(work: Work, document: OutsideDocument) -> Sequence[ReportOrder]:
    """Return the orders of the patient, or without a number those with the accession."""
    query = select(ReportOrder).where(ReportOrder.site_id == document.site_id)
    if not document.mrn:
        query = query.where(ReportOrder.accession == document.accession)
    else:
        site, mrn = document.site_id, document.mrn
        mrn = follow_pointers(work.connection, site, [mrn]).get(mrn, mrn)
        query = query.where(ReportOrder.mrn == mrn)
    newest = query.order_by(col(ReportOrder.pk).desc()).limit(MAX_REPORTS)
    return work.session.exec(newest).all()


def _report_of(work: Work, document: OutsideDocument) -> OutsideReport:
    """
    Find the report of which a document is a version, or add one.

    Versions arrive in any order: a version may name a parent that is not here yet, or be the parent
    of one that is. A version that connects two reports makes them one.
    """
    numbers = {document.hash_of(number) for number in (document.number, document.parent)} - {""}
    related = select(OutsideVersion.outside_pk).where(
        or_(
            col(OutsideVersion.number_hash).in_(numbers),
            col(OutsideVersion.parent_hash).in_(numbers),
        )
    )
    found = work.session.exec(
        select(OutsideReport)
        .where(
            OutsideReport.site_id == document.site_id,
            OutsideReport.sender == document.sender,
            or_(col(OutsideReport.pk).in_(related), col(OutsideReport.document_hash).in_(numbers)),
        )
        .order_by(col(OutsideReport.pk))
        .with_for_update()
    ).all()
    _require_one_patient(work, document, found)
    if not found:
        report = OutsideReport(
            outside_id=PREFIX + secrets.token_hex(16),
            site_id=document.site_id,
            sender=document.sender,
            document_hash=document.hash_of(document.parent or document.number),
            mrn=document.mrn,
            accession=document.accession,
            created_at=work.now,
            updated_at=work.now,
        )
        work.session.add(report)
        work.session.flush()
        return report
    first, *others = found
    for other in others:
        _combine(work, first, other)
    return first


def _require_one_patient(
    work: Work, document: OutsideDocument, found: Sequence[OutsideReport]
) -> None:
    mrns = {report.mrn for report in found} | {document.mrn}
    current = follow_pointers(work.connection, document.site_id, mrns)
    if len({current.get(mrn, mrn) for mrn in mrns if mrn}) > 1:
        raise EngineError(ErrorCode.OUTSIDE_OF_OTHER_PATIENT, pointer="/PatientMRN")


def _combine(work: Work, first: OutsideReport, other: OutsideReport) -> None:
    """Move the versions of one report to another, without those that it has."""
    own = select(OutsideVersion.digest).where(OutsideVersion.outside_pk == first.pk)
    work.session.exec(
        update(OutsideVersion)
        .where(col(OutsideVersion.outside_pk) == other.pk, col(OutsideVersion.digest).not_in(own))
        .values(outside_pk=first.pk)
    )
    first.mrn, first.accession = first.mrn or other.mrn, first.accession or other.accession
    work.session.delete(other)
    work.session.flush()


_COLUMNS: Final = (
    OutsideVersion.pk,
    OutsideVersion.outside_pk,
    OutsideVersion.number,
    OutsideVersion.status,
    OutsideVersion.code,
    OutsideVersion.at,
    OutsideVersion.sent_at,
    OutsideVersion.received_at,
    OutsideVersion.title,
    OutsideVersion.author,
    OutsideVersion.tags,
    OutsideVersion.omitted,
    OutsideVersion.pdfs,
)
"""What a list shows: neither texts nor files."""


def _times(row: Any) -> VersionTimes:
    return VersionTimes(row.at, row.sent_at, row.received_at, OutsideStatus(row.status), row.pk)


@dataclass(frozen=True, slots=True)
class OutsidePrior:
    """An outside report of the patient, with its versions (`_COLUMNS`), the newest first."""

    report: OutsideReport
    versions: Sequence[Any]
    zone: str

    @property
    def is_withdrawn(self) -> bool:
        return OutsideStatus(self.versions[0].status) is OutsideStatus.WITHDRAWN

    @property
    def study(self) -> Study:
        """The study of the report, for its rank among the priors."""
        return Study(self.versions[0].tags, self._moment(self.versions[0]))

    def _moment(self, version: Any) -> int:
        found: int = _times(version).sorting[0]
        return found

    def summary(self) -> dict[str, Any]:
        """Return the report as the list of priors shows it."""
        newest = self.versions[0]
        day = datetime.fromtimestamp(self._moment(newest) / 1000, UTC).astimezone(
            ZoneInfo(self.zone)
        )
        tags = {name: newest.tags.get(name, "") for name in TAGS[:6]}
        return {
            "reportId": self.report.outside_id,
            "status": "",
            "accessions": [self.report.accession] if self.report.accession else [],
            "signedAt": self._moment(newest),
            "signedBy": newest.author,
            "date": self.study.day or day.date().isoformat(),
            **tags,
            "StudyDescription": tags["StudyDescription"] or newest.title,
            "outside": {
                "sender": self.report.sender.replace("|", " ").strip(),
                "status": newest.status,
                "versions": len(self.versions),
                "withdrawn": self.is_withdrawn,
            },
        }


def list_outside(
    session: Session, report: Report, orders: Sequence[ReportOrder], *, outside_id: str = ""
) -> list[OutsidePrior]:
    """Return the outside reports of the patient of a report, or one of them."""
    mrns = {order.mrn for order in orders}
    merged = session.exec(
        select(PatientPointer.prior_mrn).where(
            PatientPointer.site_id == report.site_id, col(PatientPointer.mrn).in_(mrns)
        )
    ).all()
    own = session.exec(
        select(ReportOrder.accession, ReportOrder.tags)
        .where(ReportOrder.site_id == report.site_id, col(ReportOrder.mrn).in_(mrns))
        .order_by(col(ReportOrder.pk).desc())
        .limit(MAX_REPORTS)
    ).all()
    query = select(OutsideReport).where(
        OutsideReport.site_id == report.site_id,
        or_(
            col(OutsideReport.mrn).in_({*mrns, *merged}),
            and_(
                col(OutsideReport.mrn) == "",
                col(OutsideReport.accession).in_(
                    _accessions_of_one_patient(
                        session, report.site_id, [accession for accession, _ in own], mrns
                    )
                ),
            ),
        ),
    )
    if outside_id:
        query = query.where(OutsideReport.outside_id == outside_id)
    newest = query.order_by(col(OutsideReport.updated_at).desc()).limit(MAX_REPORTS)
    found = session.exec(newest).all()
    versions = _versions(session, [one.pk or 0 for one in found])
    site = session.get(Site, report.site_id)
    zone = site.time_zone if site else "UTC"
    tags = [own_tags for _, own_tags in own]
    return [
        OutsidePrior(one, versions[one.pk or 0], zone)
        for one in found
        if one.pk in versions
        and not is_of_other_patient(versions[one.pk][0].tags, tags, same_number=bool(one.mrn))
    ]


def _accessions_of_one_patient(
    session: Session, site_id: str, accessions: Collection[str], mrns: Collection[str]
) -> set[str]:
    """Leave out accessions that another patient has too."""
    others = session.exec(
        select(ReportOrder.accession).where(
            ReportOrder.site_id == site_id,
            col(ReportOrder.accession).in_(accessions),
            col(ReportOrder.mrn).not_in(mrns),
        )
    ).all()
    return {*accessions} - {*others}


def _versions(session: Session, keys: Sequence[int]) -> dict[int, list[Any]]:
    """Return the versions of reports without texts and files, the newest first."""
    rows: Sequence[Any] = (
        session.exec(
            select(*_COLUMNS).where(col(OutsideVersion.outside_pk).in_(keys))  # type: ignore[call-overload]
        ).all()
        if keys
        else []
    )
    found: dict[int, list[Any]] = {}
    for row in rows:
        found.setdefault(row.outside_pk, []).append(row)
    return {
        key: sorted(own, key=lambda row: _times(row).sorting, reverse=True)[:MAX_VERSIONS]
        for key, own in found.items()
    }


def find_outside(
    session: Session, report: Report, orders: Sequence[ReportOrder], outside_id: str
) -> OutsidePrior:
    """Return an outside report of the patient of a report; raise `report_not_found`."""
    found = list_outside(session, report, orders, outside_id=outside_id)
    if not found:
        raise EngineError(ErrorCode.REPORT_NOT_FOUND)
    return found[0]


def read_outside(session: Session, prior: OutsidePrior) -> dict[str, Any]:
    """
    Return an outside report with the texts of all versions, the newest first.

    `document` is the text to compare: without the `added` newest versions, which are addenda.
    """
    texts = _texts(session, prior)
    versions = [
        {
            "version": version.pk,
            "status": version.status,
            "at": _times(version).sorting[0],
            "receivedAt": version.received_at,
            "title": version.title,
            "author": version.author,
            "pdfs": version.pdfs,
            "omitted": version.omitted,
            "document": to_json(from_text(texts[version.pk])),
        }
        for version in prior.versions
    ]
    added = 0  # the newest versions, if they only add to an earlier one
    while added < len(versions) - 1 and versions[added]["status"] == OutsideStatus.ADDENDUM:
        added += 1
    return {
        **prior.summary(),
        "document": versions[added]["document"],
        "addenda": [],
        "added": added,
        "versions": versions,
    }


def reports_of_patient(session: Session, report: Report) -> list[dict[str, Any]]:
    """
    Return the outside reports of the patient of a report, with the texts of their versions.

    The texts have at most MAX_TEXTS characters together; `text` is None for those that do not fit.
    """
    orders = orders_of(session, key_of(report))
    left, found = MAX_TEXTS, list[dict[str, Any]]()
    for prior in list_outside(session, report, orders):
        texts = _texts(session, prior)
        versions = []
        for version in prior.versions:
            text = texts[version.pk]
            left -= len(text)
            versions.append(
                {
                    "status": version.status,
                    "at": _times(version).sorting[0],
                    "receivedAt": version.received_at,
                    "title": version.title,
                    "author": version.author,
                    "text": text if left >= 0 else None,
                    "pdfs": version.pdfs,
                    "omitted": version.omitted,
                }
            )
        summary = prior.summary()
        named = {"Accession": prior.report.accession, "sender": summary["outside"]["sender"]}
        study = summary["StudyDescription"]
        found.append({**named, "StudyDescription": study, "versions": versions})
    return found


def _texts(session: Session, prior: OutsidePrior) -> dict[int, str]:
    """Return the texts of the versions of a report by their keys."""
    keys = [version.pk for version in prior.versions]
    query = select(OutsideVersion.pk, OutsideVersion.content_text).where(
        col(OutsideVersion.pk).in_(keys)
    )
    return {key or 0: text for key, text in session.exec(query)}


def read_pdf(session: Session, prior: OutsidePrior, version: int, number: int) -> bytes:
    """Return a PDF file of a version, counted from 1; raise `report_not_found`."""
    found = None
    if version in {known.pk for known in prior.versions}:
        own = (OutsideFile.version_pk == version, OutsideFile.position == number)
        found = session.exec(select(OutsideFile.content).where(*own)).first()
    if found is None:
        raise EngineError(ErrorCode.REPORT_NOT_FOUND)
    return found
