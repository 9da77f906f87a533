"""Structured reports made with pydicom are read; hostile files are refused."""

from contextlib import suppress
from io import BytesIO
from typing import Any

import pydicom
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import (
    UID,
    DeflatedExplicitVRLittleEndian,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
)

from bridge.contract.errors import ErrorCode
from bridge.engine.documents.errors import BadStructuredReport
from bridge.engine.documents.uploads.structured_report import read
from parsers.dicom_file import DicomLimits

BASIC_TEXT = "1.2.840.10008.5.1.4.1.1.88.11"
COMPREHENSIVE = "1.2.840.10008.5.1.4.1.1.88.33"
CT_IMAGE = "1.2.840.10008.5.1.4.1.1.2"


def code(meaning: str, value: str = "T-1") -> Dataset:
    entry = Dataset()
    entry.CodeValue, entry.CodingSchemeDesignator, entry.CodeMeaning = value, "99TEST", meaning
    return entry


def item(kind: str, name: str, relationship: str = "CONTAINS", **values: Any) -> Dataset:
    made = Dataset()
    made.RelationshipType, made.ValueType = relationship, kind
    made.ConceptNameCodeSequence = [code(name)]
    for keyword, value in values.items():
        setattr(made, keyword, value)
    return made


def number(name: str, value: str, unit: str, **values: Any) -> Dataset:
    measured = Dataset()
    measured.NumericValue = value
    measured.MeasurementUnitsCodeSequence = [code(unit, unit)]
    return item("NUM", name, MeasuredValueSequence=[measured], **values)


def report(*content: Dataset, sop_class: str = BASIC_TEXT, **attributes: Any) -> Dataset:
    made = Dataset()
    made.SOPClassUID, made.SOPInstanceUID = sop_class, "1.2.3.4"
    made.Modality, made.ValueType = "SR", "CONTAINER"
    made.PatientID, made.AccessionNumber = "P1", "A1"
    made.ConceptNameCodeSequence = [code("Imaging Report")]
    made.ContentSequence = list(content)
    for keyword, value in attributes.items():
        setattr(made, keyword, value)
    return made


def file_of(made: Dataset, syntax: UID = ExplicitVRLittleEndian) -> bytes:
    made.file_meta = FileMetaDataset()
    made.file_meta.TransferSyntaxUID = syntax
    buffer = BytesIO()
    pydicom.dcmwrite(buffer, made, enforce_file_format=True)
    return buffer.getvalue()


def nested(depth: int) -> Dataset:
    inner = item("TEXT", "deepest", TextValue="x")
    for _ in range(depth):
        inner = item("CONTAINER", "c", ContentSequence=[inner])
    return inner


def fault(data: bytes, limits: DicomLimits | None = None) -> ErrorCode:
    with pytest.raises(BadStructuredReport) as raised:
        read(data, limits)
    return raised.value.code


def coded(made: Dataset, value: str) -> Dataset:
    made.ConceptNameCodeSequence[0].CodeValue = value
    return made


def evidence(*series: tuple[str, int]) -> list[Dataset]:
    """Return the references of a selection: the SOP class and number of objects of each series."""
    study, found = Dataset(), []
    for place, (sop_class, count) in enumerate(series, start=1):
        one = Dataset()
        one.SeriesInstanceUID, one.ReferencedSOPSequence = f"1.{place}", []
        for number in range(1, count + 1):
            reference = Dataset()
            reference.ReferencedSOPClassUID = sop_class
            reference.ReferencedSOPInstanceUID = f"1.{place}.{number}"
            one.ReferencedSOPSequence.append(reference)
        found.append(one)
    study.ReferencedSeriesSequence = found
    return [study]


@pytest.mark.parametrize(
    ("series", "title"),
    [
        ([(CT_IMAGE, 2), (CT_IMAGE, 1)], "Imaging Report (3 images in 2 series, CT)"),
        ([(CT_IMAGE, 1)], "Imaging Report (1 image in 1 series, CT)"),
        (
            [("1.2.840.10008.5.1.4.1.1.1.1", 1), ("1.2.840.10008.5.1.4.1.1.11.1", 1)],
            "Imaging Report (2 objects in 2 series, Digital X-Ray)",
        ),
        ([("1.2.3", 2)], "Imaging Report (2 objects in 1 series)"),
        ([], "Imaging Report"),
    ],
)
def test_the_title_of_a_key_object_says_what_it_refers_to(
    series: list[tuple[str, int]], title: str
) -> None:
    """It has no text of its own, so that it does not begin a report."""
    key_objects = "1.2.840.10008.5.1.4.1.1.88.59"
    made = report(
        sop_class=key_objects, CurrentRequestedProcedureEvidenceSequence=evidence(*series)
    )
    found = read(file_of(made))
    assert (found.title, found.text) == (title, "")


@pytest.mark.parametrize("counted", [True, False])
def test_a_dose_report_has_its_totals(*, counted: bool) -> None:
    """The exposures are counted; a report without totals keeps its text."""
    exposure = item("CONTAINER", "CT Acquisition", ContentSequence=[number("kVp", "120", "kV")])
    exposures = [coded(exposure, "113819")] * 2
    dlp = coded(number("CT Dose Length Product Total", "412.5", "mGy.cm"), "113813")
    events = coded(number("Total Number of Irradiation Events", "2", "{events}"), "113812")
    totals = item("CONTAINER", "Accumulated", ContentSequence=[events, dlp] if counted else [dlp])
    dose = "1.2.840.10008.5.1.4.1.1.88.67"
    text = read(file_of(report(totals, *exposures, sop_class=dose))).text
    assert "CT Dose Length Product Total: 412.5 mGy·cm" in text
    last = "Total Number of Irradiation Events: 2" if counted else "Irradiation events: 2"
    assert last in text
    assert len(text.splitlines()) == 2
    assert "kVp: 120 kV" in read(file_of(report(*exposures, sop_class=dose))).text


class TestContent:
    def test_basic_text(self) -> None:
        """Containers become headings, leaves become lines; empty sections are left out."""
        made = report(
            item("CONTAINER", "Findings", ContentSequence=[item("TEXT", "Lung", TextValue="ok")]),
            item("CONTAINER", "Empty"),
            item("TEXT", "Impression", TextValue="first\r\nsecond"),
        )
        got = read(file_of(made))
        assert got.title == "Imaging Report"
        assert got.text == "Findings\n  Lung: ok\nImpression: first\nsecond"

    def test_tid_1500(self) -> None:
        """Measurement groups become measurements with path and qualifiers."""
        site = item("CODE", "Finding Site", "HAS CONCEPT MOD", ConceptCodeSequence=[code("Liver")])
        group = item(
            "CONTAINER",
            "Measurement Group",
            ContentSequence=[
                item("TEXT", "Tracking Identifier", "HAS OBS CONTEXT", TextValue="lesion 1"),
                item("UIDREF", "Tracking Unique Identifier", UID="1.2.3"),
                number("Length", "12.5", "mm", ContentSequence=[site]),
                number("Ratio", "2", "1"),
            ],
        )
        top = item("CONTAINER", "Imaging Measurements", ContentSequence=[group])
        got = read(file_of(report(top, sop_class=COMPREHENSIVE)))
        length, ratio = got.measurements
        assert (length.name, length.value, length.unit) == ("Length", "12.5", "mm")
        assert length.path == ("Imaging Measurements", "Measurement Group")
        assert length.qualifiers == (("Finding Site", "Liver"),)
        assert ratio.unit == ""
        assert (length.tracking, ratio.tracking) == ("lesion 1", "lesion 1")
        assert got.text == "lesion 1 (Liver), Length 12.5 mm; Ratio 2."

    @pytest.mark.parametrize(
        ("sent", "printed"),
        [
            ("8.199999809", "8.2"),
            ("430.51239", "430.5124"),
            ("0.000163412", "0.0001634"),
            ("-0.0000123", "-0.0000123"),
            ("0.00000", "0.00000"),
        ],
    )
    def test_long_fractions(self, sent: str, printed: str) -> None:
        """They are rounded, but a small value, such as a dose, keeps four significant digits."""
        got = read(file_of(report(number("Dose Area Product Total", sent, "Gy.m2"))))
        assert got.measurements[0].value == printed

    def test_every_value_type(self) -> None:
        """CODE, PNAME, DATE, TIME and DATETIME become text; references are left out."""
        made = report(
            item("CODE", "Side", ConceptCodeSequence=[code("Left")]),
            item("PNAME", "Reader", PersonName="MADE^UP"),
            item("DATE", "On", Date="20250304"),
            item("TIME", "At", Time="101500.123"),
            item("DATETIME", "When", DateTime="20250304101500.5+0100"),
            item("DATETIME", "Since", DateTime="202503"),
            item("IMAGE", "Evidence"),
        )
        lines = read(file_of(made)).text.splitlines()
        assert lines == [
            "Side: Left",
            "Reader: MADE, UP",
            "On: 2025-03-04",
            "At: 10:15:00",
            "When: 2025-03-04 10:15:00 +01:00",
            "Since: 2025-03",
        ]

    def test_tracking_of_two_lesions(self) -> None:
        """Each measurement names its lesion; the observer is left out."""
        lesions = [
            item(
                "CONTAINER",
                "Lesion",
                ContentSequence=[
                    item("PNAME", "Observer", "HAS OBS CONTEXT", PersonName="MADE^UP"),
                    number(
                        "Length",
                        str(size),
                        "mm",
                        ContentSequence=[
                            item("TEXT", name, "HAS OBS CONTEXT", TextValue=f"target {size}")
                        ],
                    ),
                ],
            )
            for size, name in ((1, "Tracking Identifier"), (2, "TRACKING IDENTIFIER"))
        ]
        got = read(file_of(report(*lesions, sop_class=COMPREHENSIVE)))

        assert [measurement.tracking for measurement in got.measurements] == [
            "target 1",
            "target 2",
        ]
        assert "MADE" not in got.text
        assert "target 2" in got.text

    def test_japanese(self) -> None:
        """ISO 2022 IR 87 is decoded in items and in the patient's name."""
        made = report(
            item("TEXT", "所見", TextValue="肺野は清明です。"),
            SpecificCharacterSet=["", "ISO 2022 IR 87"],
            PatientName="Yamada^Tarou=山田^太郎=やまだ^たろう",
        )
        data = file_of(made)
        assert b"\x1b$B" in data
        got = read(data)
        assert got.text == "所見: 肺野は清明です。"
        assert got.tags["PatientName"] == "Yamada^Tarou=山田^太郎=やまだ^たろう"


class TestTags:
    """clinicalInfo from attributes."""

    def test_attributes(self) -> None:
        requested = Dataset()
        requested.RequestedProcedureDescription = "CT chest"
        made = report(
            PatientBirthDate="19700102",
            PatientSex="F",
            StudyDate="20250304",
            StudyInstanceUID="1.2.9",
            ModalitiesInStudy=["SR", "CT"],
            ReferencedRequestSequence=[requested],
            ProcedureCodeSequence=[code("CT chest", "CTCH")],
            ReferringPhysicianName="REFER^RING",
        )
        assert dict(read(file_of(made)).tags) == {
            "PatientMRN": "P1",
            "Accession": "A1",
            "PatientBirthDate": "19700102",
            "PatientSex": "F",
            "Modality": "CT",
            "StudyDescription": "CT chest",
            "ProcedureCode": "CTCH",
            "StudyDate": "20250304",
            "StudyInstanceUID": "1.2.9",
            "ReferringPhysician": "REFER^RING",
        }

    def test_accession_of_the_request(self) -> None:
        """A report without accession has that of its first referenced request."""
        requested = Dataset()
        requested.AccessionNumber = "A2"
        made = report(AccessionNumber="", ReferencedRequestSequence=[requested])
        assert read(file_of(made)).tags["Accession"] == "A2"


@pytest.mark.parametrize(
    "syntax",
    [
        ExplicitVRLittleEndian,
        ImplicitVRLittleEndian,
        ExplicitVRBigEndian,
        DeflatedExplicitVRLittleEndian,
    ],
)
def test_transfer_syntaxes(syntax: UID) -> None:
    """All four transfer syntaxes give the same text."""
    made = report(item("TEXT", "Finding", TextValue="same"))
    assert read(file_of(made, syntax)).text == "Finding: same"


def test_without_preamble() -> None:
    """A data set without preamble, as some archives store it, is read too."""
    buffer = BytesIO()
    made = report(item("TEXT", "Finding", TextValue="bare"))
    pydicom.dcmwrite(buffer, made, implicit_vr=True, little_endian=True)
    assert read(buffer.getvalue()).text == "Finding: bare"


class TestRefusals:
    @pytest.mark.parametrize("data", [b"", b"x", b"%PDF-1.7 something", b"\0" * 132])
    def test_not_dicom(self, data: bytes) -> None:
        assert fault(data) is ErrorCode.SR_NOT_DICOM

    def test_not_a_report(self) -> None:
        """A DICOM image is refused."""
        assert fault(file_of(report(sop_class=CT_IMAGE))) is ErrorCode.SR_NOT_STRUCTURED_REPORT

    @pytest.mark.parametrize("undefined", [False, True])
    def test_cut(self, undefined: bool) -> None:
        """A truncated file is refused, for both encodings of sequence lengths."""
        made = report(item("TEXT", "Finding", TextValue="x" * 200))
        made["ContentSequence"].is_undefined_length = undefined
        made.ContentSequence[0].is_undefined_length_sequence_item = undefined
        data = file_of(made)
        assert read(data).text
        assert fault(data[:-150]) is ErrorCode.SR_MALFORMED

    def test_too_large(self) -> None:
        """The limit applies to the sent size and to the inflated size."""
        made = report(item("TEXT", "Finding", TextValue="x" * 100_000))
        limits = DicomLimits(max_bytes=50_000)
        assert fault(file_of(made), limits) is ErrorCode.SR_TOO_LARGE
        deflated = file_of(made, DeflatedExplicitVRLittleEndian)
        assert len(deflated) < 50_000
        assert fault(deflated, limits) is ErrorCode.SR_TOO_LARGE

    def test_too_deep(self) -> None:
        """Nesting is limited."""
        assert read(file_of(report(nested(60)))).text.endswith("deepest: x")
        assert fault(file_of(report(nested(70)))) is ErrorCode.SR_TOO_DEEP

    def test_ten_thousand_deep(self) -> None:
        """A crafted file does not overflow the stack."""
        head = file_of(report())
        opened = b"\x40\x00\x30\xa7SQ\0\0\xff\xff\xff\xff\xfe\xff\x00\xe0\xff\xff\xff\xff"
        assert fault(head + opened * 10_000) in {ErrorCode.SR_TOO_DEEP, ErrorCode.SR_MALFORMED}

    def test_too_many_items(self) -> None:
        """Items are counted before they are parsed."""
        items = [item("TEXT", "n", TextValue="x") for _ in range(50)]
        assert (
            fault(file_of(report(*items)), DicomLimits(max_items=40)) is ErrorCode.SR_TOO_MANY_ITEMS
        )

    def test_no_value_in_the_error(self) -> None:
        """Neither error nor warning quotes the file."""
        made = report(PatientID="CANARY" * 20, SOPInstanceUID="")
        buffer = BytesIO()
        pydicom.dcmwrite(buffer, made, implicit_vr=False, little_endian=True)
        with pytest.raises(BadStructuredReport) as raised:
            read(buffer.getvalue())
        assert "CANARY" not in repr(raised.value)
        assert raised.value.code is ErrorCode.SR_MALFORMED


@given(st.binary(max_size=40), st.integers(0, 600))
def test_damage_never_raises_anything_else(noise: bytes, at: int) -> None:
    """A damaged file is read or refused, without another exception."""
    data = file_of(report(item("TEXT", "Finding", TextValue="x")))
    with suppress(BadStructuredReport):
        read(data[:at] + noise + data[at + len(noise) :])
