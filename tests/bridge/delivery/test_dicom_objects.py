"""The DICOM objects of a report, as DCMTK, highdicom and the reader of DICOM reports see them."""

import subprocess
import warnings
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import highdicom
import pytest
from highdicom.sr import ContainerContentItem, ContentSequence
from pydicom import Dataset

from bridge.admin.messages.dicom_content import text_of, text_of_documents
from bridge.delivery.dicom_objects import (
    DicomDocuments,
    DocumentForm,
    SentDocument,
    files_of,
    read_documents,
    sent_objects,
    write_documents,
)
from bridge.delivery.errors import NoDocument, NoStudy, NotInCharacterSet
from bridge.engine.documents.uploads.structured_report import read
from mappings.compiler import compile_sources
from mappings.language.definition_files import overlay_settings
from mappings.outbound.definition import OutboundMapping
from mappings.outbound.results import (
    DocumentNames,
    FileFormat,
    ResultContext,
    ResultEvent,
    ResultOrder,
    SignedAddendum,
    Signer,
)
from tests.mappings.definitions import SHIPPED
from tests.programs import DCMTK, find_program

NOW = datetime(2026, 11, 30, 22, 30, 15, tzinfo=UTC)
PDF = b"%PDF-1.7\n" + bytes(range(256)) + b"\r\n--report-bridge-x\r\n"
GREEK = "Καρδιά φυσιολογική"
TEXT = f"""Clinical information: cough

Befund:
{GREEK}. 胸部異常なし \\ ^ = & | ok.

IMPRESSION
Normal."""
STUDY, OTHER_STUDY = "1.2.840.99.1", "2.25.77"
ORDER = ResultOrder(
    tags={
        "SiteID": "SITE1",
        "PatientMRN": "MRN-1",
        "PatientName": "Yamada^Tarou=山田^太郎=やまだ^たろう",
        "PatientBirthDate": "19610203",
        "PatientSex": "M",
        "PatientAge": "065Y",
        "Accession": "ACC-1",
        "StudyDescription": "CT\\Chest",
        "StudyDate": "20261130",
        "StudyTime": "2210",
        "StudyInstanceUID": STUDY,
        "ReferringPhysician": "Roe^Ann^^Dr.",
    },
    placer="P-1",
    filler="F-1",
)
SECOND = replace(
    ORDER, tags={**ORDER.tags, "Accession": "ACC-2", "StudyInstanceUID": OTHER_STUDY}, placer="P-2"
)
CONTEXT = ResultContext(
    event=ResultEvent.FINAL,
    control_id="C0001",
    now=NOW,
    site="SITE1",
    orders=(ORDER,),
    report_text=TEXT,
    signed_at=NOW,
    signed_by=Signer("Dr. Anna Berg", "anna@hospital.example"),
    time_zone="Asia/Tokyo",
    files={FileFormat.PDF: PDF},
    document=DocumentNames("ABCDEF", ""),
)
ADDENDUM = SignedAddendum("Compared with 2025.", NOW, Signer("Kenji Mori"))


def layout_of_results() -> OutboundMapping:
    options = {"sections": "dicom", "orders": "combined"}
    compiled = compile_sources(*overlay_settings(SHIPPED, "results", options, "destination pacs"))
    assert isinstance(compiled, OutboundMapping)
    return compiled


LAYOUT = layout_of_results().style.layout


def written(
    context: ResultContext = CONTEXT,
    documents: DicomDocuments | None = None,
    *sent: tuple[SentDocument, ...],
) -> bytes:
    return write_documents(context, LAYOUT, documents or DicomDocuments(), sent)


def objects(payload: bytes, modality: str) -> list[Dataset]:
    return [found for found in read_documents(payload) if found.Modality == modality]


def run(*command: str) -> str:
    done = subprocess.run(
        [find_program(command[0]) or command[0], *command[1:]],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert b"E:" not in done.stderr, done.stderr
    return done.stdout.decode()


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = []
    for number, file in enumerate(files_of(written())):
        paths.append(tmp_path / f"{number}.dcm")
        paths[-1].write_bytes(file)
    return paths


@pytest.mark.needs(DCMTK)
def test_dcmtk_reads_the_structured_report(files: list[Path]) -> None:
    """DCMTK finds a valid, complete and verified Basic Text SR, with the whole text."""
    found = run("dsrdump", "+Pl", str(files[1]))
    assert "Basic Text SR Document" in found
    assert "Completion Flag     : COMPLETE" in found
    assert "2026-12-01 07:30:15 +09:00, Berg^Dr. Anna, SITE1" in found
    assert "Yamada^Tarou=山田^太郎=やまだ^たろう" in found
    for heading in ("History", "Findings", "Impressions"):
        assert f'CONTAINER:(,,"{heading}")' in found
    assert f"{GREEK}. 胸部異常なし" in found


@pytest.mark.needs(DCMTK)
def test_dcmtk_returns_the_pdf(files: list[Path], tmp_path: Path) -> None:
    """The PDF in the object is the report's, byte by byte."""
    run("dcm2pdf", str(files[0]), str(tmp_path / "report.pdf"))
    assert (tmp_path / "report.pdf").read_bytes().rstrip(b"\0") == PDF.rstrip(b"\0")
    assert "application/pdf" in run("dcmdump", str(files[0]))


@pytest.mark.filterwarnings("error")
def test_no_value_breaks_its_representation() -> None:
    """Every value of every object is valid for its VR, and is read without a warning."""
    for context in (CONTEXT, replace(CONTEXT, orders=(ORDER, SECOND), addenda=(ADDENDUM,))):
        for found in read_documents(written(context)):
            found.decode()
            assert found.to_json()


def test_patient_study_and_requests() -> None:
    for found in read_documents(written()):
        assert (found.PatientID, found.AccessionNumber, found.StudyInstanceUID) == (
            "MRN-1",
            "ACC-1",
            STUDY,
        )
        assert str(found.PatientName) == ORDER.tags["PatientName"]
        assert found.StudyDescription == "CT/Chest"
        assert found.ReferringPhysicianName.given_name == "Ann"
        assert found.TimezoneOffsetFromUTC == "+0900"
        assert (found.ContentDate, found.ContentTime) == ("20261201", "073015")
    (report,) = objects(written(), "SR")
    (request,) = report.ReferencedRequestSequence
    assert request.PlacerOrderNumberImagingServiceRequest == "P-1"
    assert request.FillerOrderNumberImagingServiceRequest == "F-1"


@pytest.mark.parametrize(
    ("authority", "issuer", "qualifier"),
    [
        ("HOSP&1.2.3&ISO", "HOSP", ("1.2.3", "ISO")),
        ("&ward.example.org&DNS", "ward.example.org", ("ward.example.org", "DNS")),
        ("HOSP&7&L", "HOSP", None),
        ("", None, None),
    ],
)
def test_the_issuer_of_the_number(
    authority: str, issuer: str | None, qualifier: tuple[str, str] | None
) -> None:
    """The assigning authority is that of the number in Patient ID, whatever its place in PID-3."""
    echo = ("MSH|^~\\&|RIS", f"PID|1||9^^^OTHER&9.9&ISO~MRN-1^^^{authority}^MR||Yamada")
    for found in read_documents(written(replace(CONTEXT, orders=(replace(ORDER, echo=echo),)))):
        assert found.get("IssuerOfPatientID") == issuer
        qualifiers = [
            (item.UniversalEntityID, item.UniversalEntityIDType)
            for item in found.get("IssuerOfPatientIDQualifiersSequence", ())
        ]
        assert qualifiers == ([qualifier] if qualifier else [])


@pytest.mark.parametrize(
    ("known", "in_document", "in_series"), [("RP-7", "RP-7", "RP-7"), ("", "", "ACC-1")]
)
def test_the_requested_procedure(known: str, in_document: str, in_series: str) -> None:
    """It is that of the worklist. Unknown it is empty in the SR, where it may be (type 2)."""
    pdf, report = read_documents(
        written(replace(CONTEXT, orders=(replace(ORDER, procedure_id=known),)))
    )
    (request,) = report.ReferencedRequestSequence
    assert (request.RequestedProcedureID, request.AccessionNumber) == (in_document, "ACC-1")
    assert request.StudyInstanceUID == STUDY
    for keyword in ("ReferencedStudySequence", "RequestedProcedureCodeSequence"):
        assert len(request[keyword].value) == 0
    (request,) = pdf.RequestAttributesSequence
    assert (request.RequestedProcedureID, request.AccessionNumber) == (in_series, "ACC-1")


def test_the_text_is_complete() -> None:
    """The sections of the SR are the lines of the report, in order, headings included."""
    (report,) = objects(written(), "SR")
    lines = [line for text in _texts(report) for line in text.split("\r\n") if line.strip()]
    assert lines == [line for line in TEXT.split("\n") if line.strip()]
    assert [section.ConceptNameCodeSequence[0].CodeValue for section in _sections(report)] == [
        "121060",
        "121070",
        "121072",
    ]


def _sections(report: Dataset) -> list[Dataset]:
    return [item for item in report.ContentSequence if item.ValueType == "CONTAINER"]


def _texts(report: Dataset) -> list[str]:
    return [section.ContentSequence[0].TextValue for section in _sections(report)]


@pytest.mark.parametrize("text", [TEXT, "Without a heading."])
@pytest.mark.parametrize("language", ["", "de-CH"])
def test_the_template(text: str, language: str) -> None:
    """The SR is a Basic Diagnostic Imaging Report: the rows of TID 2000 and no others, in order."""
    context = replace(CONTEXT, report_text=text, addenda=(ADDENDUM,))
    (report,) = objects(written(context, DicomDocuments(language=language)), "SR")
    (template,) = report.ContentTemplateSequence
    assert (template.MappingResource, template.TemplateIdentifier) == ("DCMR", "2000")
    found, *others = report.ContentSequence
    assert (found.RelationshipType, _concept(found)) == ("HAS CONCEPT MOD", "121049")
    assert found.ConceptCodeSequence[0].CodeValue == (language or "und")
    context_items = others[: -len(_sections(report))]
    assert [_concept(item) for item in context_items] == ["121005", "121008"] * 2
    assert {item.RelationshipType for item in context_items} == {"HAS OBS CONTEXT"}
    for section in _sections(report):
        assert (section.RelationshipType, section.ContinuityOfContent) == ("CONTAINS", "SEPARATE")
        (item,) = section.ContentSequence
        assert (item.RelationshipType, item.ValueType) == ("CONTAINS", "TEXT")


def _concept(item: Dataset) -> str:
    return str(item.ConceptNameCodeSequence[0].CodeValue)


def test_a_referring_physician_as_it_is_written() -> None:
    """An order from HL7 has the name as a person writes it; in DICOM its parts are divided."""
    for written_name, expected in (
        ("Richard Roe", "Roe^Richard"),
        ("Roe, Richard; Doe, Ann", "Roe^Richard"),
        ("", ""),
    ):
        order = replace(ORDER, tags={**ORDER.tags, "ReferringPhysician": written_name})
        for found in read_documents(written(replace(CONTEXT, orders=(order,)))):
            assert str(found.ReferringPhysicianName) == expected


def test_highdicom_reads_the_content() -> None:
    """Another library reads the content tree of the SR and the rejection note."""
    before = written()
    retraction = replace(CONTEXT, event=ResultEvent.RETRACTION, control_id="C0002")
    payload = written(retraction, None, sent_objects(before))
    (report,) = objects(before, "SR")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        root = ContainerContentItem.from_dataset(report)
        assert len(ContentSequence.from_sequence(report.ContentSequence)) > len(_sections(report))
        (note,) = objects(payload, "KO")
        read_note = highdicom.ko.KeyObjectSelectionDocument.from_dataset(note)
    assert root.name.value == "18748-4"
    assert read_note.content.from_sequence is not None


def test_our_reader_of_reports_reads_it_back() -> None:
    """What the bridge sends is read by the bridge: tags and text."""
    (file,) = files_of(written(documents=DicomDocuments(forms=(DocumentForm.SR,))))
    found = read(file)
    assert found.tags["StudyInstanceUID"] == STUDY
    assert found.tags["ReportingPhysician"] == "Berg^Dr. Anna"


def test_a_repetition_is_the_same_instance() -> None:
    """Two compositions of one release differ in their times only; another release differs."""
    later = replace(CONTEXT, now=NOW.replace(minute=59))
    assert sent_objects(written()) == sent_objects(written(later))
    other = sent_objects(written(replace(CONTEXT, control_id="C0002")))
    assert {one.sop_instance for one in sent_objects(written())}.isdisjoint(
        one.sop_instance for one in other
    )
    assert [one.series for one in sent_objects(written())] == [one.series for one in other]


def test_each_study_of_linked_orders_gets_the_report() -> None:
    """Each object names both requests, and the identical documents in the other study."""
    payload = written(replace(CONTEXT, orders=(ORDER, SECOND)))
    first, second = objects(payload, "SR")
    assert (first.StudyInstanceUID, second.StudyInstanceUID) == (STUDY, OTHER_STUDY)
    assert (first.AccessionNumber, second.AccessionNumber) == ("ACC-1", "ACC-2")
    for own, other in ((first, second), (second, first)):
        accessions = [item.AccessionNumber for item in own.ReferencedRequestSequence]
        assert accessions == ["ACC-1", "ACC-2"]
        (study,) = own.IdenticalDocumentsSequence
        assert study.StudyInstanceUID == other.StudyInstanceUID
        (series,) = study.ReferencedSeriesSequence
        assert series.SeriesInstanceUID == other.SeriesInstanceUID
        assert series.ReferencedSOPSequence[0].ReferencedSOPInstanceUID == other.SOPInstanceUID
    assert len(objects(payload, "DOC")) == 2


def test_orders_of_one_study_share_the_objects() -> None:
    same = replace(SECOND, tags={**SECOND.tags, "StudyInstanceUID": STUDY})
    payload = written(replace(CONTEXT, orders=(ORDER, same)))
    (report,) = objects(payload, "SR")
    assert [item.AccessionNumber for item in report.ReferencedRequestSequence] == ["ACC-1", "ACC-2"]
    assert "IdenticalDocumentsSequence" not in report
    (pdf,) = objects(payload, "DOC")
    assert [item.AccessionNumber for item in pdf.RequestAttributesSequence] == ["ACC-1", "ACC-2"]


def test_an_addendum_names_its_predecessor() -> None:
    """The new objects contain the whole report, and name the objects that the PACS has."""
    before = written()
    context = replace(
        CONTEXT,
        event=ResultEvent.ADDENDUM,
        control_id="C0002",
        addenda=(ADDENDUM,),
        earlier=(ResultEvent.FINAL,),
    )
    payload = written(context, None, sent_objects(before))
    for old, new in zip(read_documents(before), read_documents(payload), strict=True):
        (study,) = new.PredecessorDocumentsSequence
        (series,) = study.ReferencedSeriesSequence
        assert series.SeriesInstanceUID == old.SeriesInstanceUID == new.SeriesInstanceUID
        assert series.ReferencedSOPSequence[0].ReferencedSOPInstanceUID == old.SOPInstanceUID
        assert new.InstanceNumber == old.InstanceNumber + 1
    (report,) = objects(payload, "SR")
    assert _sections(report)[-1].ConceptNameCodeSequence[0].CodeValue == "121078"
    assert "Compared with 2025." in _sections(report)[-1].ContentSequence[0].TextValue
    names = [str(one.VerifyingObserverName) for one in report.VerifyingObserverSequence]
    assert names == ["Berg^Dr. Anna", "Mori^Kenji"]


def test_a_withdrawn_report_is_rejected() -> None:
    """The note rejects what the PACS has; the new SR says it, and contains nothing of the text."""
    before = written()
    context = replace(
        CONTEXT,
        event=ResultEvent.RETRACTION,
        control_id="C0002",
        report_text="This report has been withdrawn.",
        files={},
    )
    later = written(replace(CONTEXT, control_id="C0003", event=ResultEvent.CORRECTION))
    payload = written(context, None, sent_objects(later), sent_objects(before))
    (note,) = objects(payload, "KO")
    assert note.ConceptNameCodeSequence[0].CodeValue == "113001"
    rejected = {
        item.ReferencedSOPSequence[0].ReferencedSOPInstanceUID for item in note.ContentSequence
    }
    assert rejected == {
        one.SOPInstanceUID for sent in (before, later) for one in read_documents(sent)
    }
    assert note.CurrentRequestedProcedureEvidenceSequence[0].StudyInstanceUID == STUDY
    (report,) = objects(payload, "SR")
    assert report.VerificationFlag == "UNVERIFIED"
    assert _texts(report) == [context.report_text]
    assert not objects(payload, "DOC")


def rejected_by(payload: bytes) -> dict[str, set[str]]:
    """Return the rejected instances by the study of their note."""
    return {
        note.StudyInstanceUID: {
            item.ReferencedSOPSequence[0].ReferencedSOPInstanceUID for item in note.ContentSequence
        }
        for note in objects(payload, "KO")
    }


def instances(payload: bytes) -> set[str]:
    return {one.sop_instance for one in sent_objects(payload)}


RETRACTION = replace(CONTEXT, event=ResultEvent.RETRACTION, control_id="C0002", files={})


def test_a_withdrawn_report_of_another_study() -> None:
    """The note is in the study that has the objects, also if the order has another one now."""
    before = written()
    moved = replace(ORDER, tags={**ORDER.tags, "StudyInstanceUID": OTHER_STUDY})
    payload = written(replace(RETRACTION, orders=(moved,)), None, sent_objects(before))
    assert rejected_by(payload) == {STUDY: instances(before)}


def test_a_report_that_leaves_a_study() -> None:
    """
    What is in the former study is rejected once, as that study's patient; the report follows in
    its new study. A later withdrawal rejects the rest.
    """
    before = written(replace(CONTEXT, orders=(ORDER, SECOND)))
    tags = {"StudyInstanceUID": OTHER_STUDY, "PatientMRN": "MRN-2", "PatientName": "Other^One"}
    own = replace(ORDER, tags={**ORDER.tags, **tags})
    context = replace(CONTEXT, event=ResultEvent.ADDENDUM, control_id="C0002", orders=(own,))
    moved = written(context, None, sent_objects(before))
    left = {one.sop_instance for one in sent_objects(before) if one.study == STUDY}
    assert rejected_by(moved) == {STUDY: left}
    (note,) = objects(moved, "KO")
    assert note.ConceptNameCodeSequence[0].CodeValue == "113038"
    assert (note.PatientID, str(note.PatientName)) == ("MRN-1", ORDER.tags["PatientName"])
    assert (note.AccessionNumber, note.StudyDescription) == ("ACC-1", "CT/Chest")
    for found in [*objects(moved, "DOC"), *objects(moved, "SR")]:
        assert (found.StudyInstanceUID, found.PatientID) == (OTHER_STUDY, "MRN-2")
    again = replace(context, control_id="C0003", orders=(own,))
    sent = [sent_objects(moved), sent_objects(before)]
    assert rejected_by(written(again, None, *sent)) == {}
    withdrawal = written(replace(RETRACTION, control_id="C0004", orders=(own,)), None, *sent)
    stayed = {one.sop_instance for one in sent[1] if one.study == OTHER_STUDY}
    current = {one.sop_instance for one in sent[0] if one.study == OTHER_STUDY}
    assert rejected_by(withdrawal) == {OTHER_STUDY: stayed | current}


@pytest.mark.parametrize("patient", ["MRN-1", "MRN-2"])
def test_the_predecessors_in_a_former_study(patient: str) -> None:
    """A version in another study is one of this report, unless it is another patient's."""
    tags = {"StudyInstanceUID": OTHER_STUDY, "PatientMRN": patient}
    own = replace(ORDER, tags={**ORDER.tags, **tags})
    before = written()
    moved = written(replace(CONTEXT, control_id="C0002", orders=(own,)), None, sent_objects(before))
    for found in [*objects(moved, "DOC"), *objects(moved, "SR")]:
        assert ("PredecessorDocumentsSequence" in found) == (patient == "MRN-1")


def test_the_right_patient_after_a_withdrawal() -> None:
    """Nothing that was withdrawn under another patient is named again or rejected again."""
    wrong = written()
    withdrawal = write_documents(
        RETRACTION, LAYOUT, DicomDocuments(), [sent_objects(wrong)], is_wrong_patient=True
    )
    (note,) = objects(withdrawal, "KO")
    assert note.ConceptNameCodeSequence[0].CodeValue == "113038"
    own = replace(ORDER, tags={**ORDER.tags, "PatientMRN": "MRN-2", "PatientName": "Right^One"})
    context = replace(CONTEXT, control_id="C0003", orders=(own,))
    sent = [sent_objects(withdrawal, in_withdrawal=True), sent_objects(wrong)]
    right = written(context, None, *sent)
    for found in read_documents(right):
        assert (found.PatientID, str(found.PatientName)) == ("MRN-2", "Right^One")
        assert "PredecessorDocumentsSequence" not in found
    assert {one.series for one in sent_objects(right)}.isdisjoint(one.series for one in sent[1])
    again = replace(RETRACTION, control_id="C0004", orders=(own,))
    assert rejected_by(written(again, None, sent_objects(right), *sent)) == {
        STUDY: instances(right)
    }
    same = written(replace(CONTEXT, control_id="C0003"), None, *sent)
    (report,) = objects(same, "SR")
    assert "PredecessorDocumentsSequence" in report, "it is the next version of the same document"


@pytest.mark.parametrize("study", ["", "none", "1.02", "1." * 40 + "1"])
def test_an_order_without_a_study(study: str) -> None:
    """Such a report would open a study that does not exist."""
    order = replace(ORDER, tags={**ORDER.tags, "StudyInstanceUID": study})
    with pytest.raises(NoStudy):
        written(replace(CONTEXT, orders=(ORDER, order)))


@pytest.mark.parametrize("name", ["Hanna Weber", "Weber, Hanna", "Hanna Weber; Peter Hahn"])
def test_a_physician_as_readers_see_him(name: str) -> None:
    """The tag of an order is a text; the attribute has components, and one name."""
    order = replace(ORDER, tags={**ORDER.tags, "ReferringPhysician": name})
    for found in read_documents(written(replace(CONTEXT, orders=(order,)))):
        assert str(found.ReferringPhysicianName) == "Weber^Hanna"


def test_a_character_set_without_a_letter() -> None:
    """No letter of a report is replaced by a question mark."""
    with pytest.raises(NotInCharacterSet, match="ISO_IR 100"):
        written(documents=DicomDocuments(charset="ISO_IR 100"))
    plain = replace(
        CONTEXT,
        report_text="Größe: normal",
        orders=(replace(ORDER, tags={**ORDER.tags, "PatientName": "Müller^Jürgen"}),),
    )
    (report,) = objects(written(plain, DicomDocuments(charset="ISO_IR 100")), "SR")
    assert str(report.PatientName) == "Müller^Jürgen"
    assert _texts(report) == ["Größe: normal"]


def test_received_and_sent_objects_are_shown_alike() -> None:
    """Only the text of a long value differs: that of a report of ours is whole, with its lines."""
    payload = written(replace(CONTEXT, report_text="A line.\n" * 100))
    sent = text_of_documents(payload)
    received, _ = text_of(files_of(payload)[1])
    assert sent.count("A line.") == 100
    assert sent.count("\n") > 100
    attributes = received.split("\n\n", 1)[1].split("\n")
    assert len(attributes) > 50
    short = [line for line in attributes if "A line." not in line and line.strip() != "…"]
    assert set(short) <= set(sent.split("\n"))


def test_nothing_for_the_forms() -> None:
    """A report without its PDF, and a retraction of which the PACS has nothing, are errors."""
    only_pdf = DicomDocuments(forms=(DocumentForm.PDF,))
    for context in (
        replace(CONTEXT, files={}),
        replace(CONTEXT, event=ResultEvent.RETRACTION),
    ):
        with pytest.raises(NoDocument):
            written(context, only_pdf)


def test_a_very_long_report() -> None:
    """A text of two million characters is one value."""
    text = "Ä long line of a report.\n" * 80_000
    context = replace(CONTEXT, report_text=text)
    (report,) = objects(written(context), "SR")
    assert _texts(report)[0].count("\r\n") == 79_999


@pytest.mark.parametrize("payload", [b"", b"MSH|^~\\&|", b"--", b"--x\r\n\r\n--x--"])
def test_other_payloads_have_no_objects(payload: bytes) -> None:
    assert files_of(payload) == []
    assert read_documents(payload) == []
