"""The text and the PDF of outside reports."""

import base64
import textwrap
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappings.hl7.escapes import escape
from mappings.hl7.message import Message
from mappings.hl7.refusals import MessageRefusal, ValueTooLong, WrongDataType
from mappings.inbound import report_text
from mappings.inbound.report_text import ReportContent, read_content
from mappings.language.scope import split_orders
from tests.mappings.definitions import DEFAULTS

PDF = b"%PDF-1.7\n1 0 obj\n<< >>\nendobj\n%%EOF\n"
HEAD = "MSH|^~\\&|A|B|C|D|20261128220100||ORU^R01|1|P|2.5.1\rPID|1||1\rORC|RE\rOBR|1\r"


def read(*segments: str) -> ReportContent:
    raw = (HEAD + "\r".join(segments)).encode("utf-8", "surrogatepass")
    (scope,) = split_orders(Message.parse(raw), DEFAULTS)
    return read_content(scope)


def encapsulated(data: bytes, kind: str = "application", subtype: str = "PDF") -> str:
    return f"OBX|1|ED|1^Report||^{kind}^{subtype}^Base64^{base64.b64encode(data).decode()}"


@pytest.mark.parametrize(
    ("segments", "expected"),
    [
        (("OBX|1|TX|||One.", "OBX|2|TX|||Two."), "One.\nTwo."),
        (("OBX|1|TX|||One.~Two.",), "One.\nTwo."),
        (("OBX|1|FT|||One.\\.br\\Two.\\.br\\\\.br\\Three.",), "One.\nTwo.\n\nThree."),
        (("OBX|1|ST|||3 \\T\\ 4 \\S\\ 5",), "3 & 4 ^ 5"),
        (("OBX|1|TX|||3 & 4^5",), "3 & 4^5"),
        (("OBX|1|TX|||One.", "OBX|2|TX|||", "OBX|3|TX|||Two."), "One.\n\nTwo."),
        (('OBX|1|TX|||""', "OBX|2|TX|||One."), "One."),
        (("OBX|1|CE|||RID28454^Normal^RADLEX",), "Normal"),
        (("OBX|1|TX|||One\\X0D0A\\Two",), "One\nTwo"),
        (("OBX|1|TX|||{\\E\\rtf1 One \\E\\b two\\E\\b0 .\\E\\par Three}",), "One two.\nThree"),
        (("OBX|1|FT|||{\\rtf1\\ansi One\\par Two}",), "One\nTwo"),
    ],
)
def test_text(segments: tuple[str, ...], expected: str) -> None:
    """Text has its lines, resolved escapes and no markup."""
    assert read(*segments) == ReportContent(expected)


@pytest.mark.parametrize("subtype", ["PDF", "pdf", "", "RTF", "octet-stream"])
def test_pdf_of_any_subtype(subtype: str) -> None:
    """The first bytes say that it is a PDF, whatever the sender calls it."""
    assert read(encapsulated(PDF, "AP", subtype)) == ReportContent(pdfs=(PDF,))


@pytest.mark.parametrize("line_end", ["\\.br\\", "\\X0D0A\\", " ", "\n"])
def test_base64_in_lines(line_end: str) -> None:
    """Base64 may have line breaks, as MIME writes it."""
    lines = textwrap.wrap(base64.b64encode(PDF * 20).decode(), 76)
    found = read(f"OBX|1|ED|1||^application^PDF^Base64^{line_end.join(lines)}")
    assert found.pdfs == (PDF * 20,)


LARGE = b"%PDF-1.7\n" + bytes(range(256)) * 40 + b"\n%%EOF\n"


@pytest.mark.parametrize("size", [97, 1000, 4000, 13_000])
@pytest.mark.parametrize("separator", ["OBX", "~"])
def test_a_pdf_in_pieces(size: int, separator: str) -> None:
    """Base64 may be divided anywhere, among segments or repetitions; text and files stay apart."""
    encoded = base64.b64encode(LARGE).decode()
    pieces = [
        f"^application^PDF^Base64^{encoded[at : at + size]}" for at in range(0, len(encoded), size)
    ]
    joined = "~".join(pieces)
    rows = [joined] if separator == "~" else pieces
    segments = [f"OBX|{number}|ED|1||{row}" for number, row in enumerate(rows, start=1)]
    found = read("OBX|1|TX|||One.", *segments, encapsulated(PDF), "OBX|9|TX|||Two.")
    assert found == ReportContent("One.\nTwo.", (LARGE, PDF))


@pytest.mark.parametrize("size", [100, 3000])
def test_a_pdf_that_was_divided_before_it_was_encoded(size: int) -> None:
    """Each piece has its own padding."""
    pieces = [LARGE[at : at + size] for at in range(0, len(LARGE), size)]
    assert read(*map(encapsulated, pieces)) == ReportContent(pdfs=(LARGE,))


def test_two_pdf_files_stay_two() -> None:
    assert read(encapsulated(LARGE), encapsulated(PDF)) == ReportContent(pdfs=(LARGE, PDF))


def test_too_many_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is that of the whole file."""
    monkeypatch.setattr(report_text, "MAX_PDF_BYTES", 3000)
    with pytest.raises(ValueTooLong):
        read(encapsulated(LARGE[:2500]), encapsulated(LARGE[2500:]))


def test_text_and_pdf_together() -> None:
    """A report may have both, and several files; a picture is named as left out."""
    found = read(
        "OBX|1|TX|||One.",
        encapsulated(PDF),
        encapsulated(PDF),
        encapsulated(b"\xff\xd8", "image", "JPEG"),
    )
    assert found == ReportContent("One.", (PDF, PDF), ("image JPEG",))


def test_rtf_in_base64() -> None:
    assert read(encapsulated(b"{\\rtf1 One\\par caf\\'e9}", "TEXT", "RTF")).text == "One\ncafé"


def test_plain_text_in_base64() -> None:
    assert read(encapsulated("Größe".encode(), "text", "plain")).text == "Größe"


def test_text_in_another_character_set() -> None:
    """It has its characters; a set that is not known is kept as sent, and named."""
    assert read(r"OBX|1|TX|||\M2442\;3ED\C2842\ CT: \M242943\정상") == ReportContent(
        "山田 CT: 정상"
    )
    found = read(r"OBX|1|FT|||One \M824041\ab\C2842\.\.br\Two")
    assert found == ReportContent("One \\M824041\\ab\\C2842\\.\nTwo", omitted=("\\M824041\\",))


@pytest.mark.parametrize("encoding", ["A", "ASCII"])
def test_an_ed_that_is_not_encoded(encoding: str) -> None:
    """Text is text; a CDA document is named."""
    assert read(f"OBX|1|ED|1||^TEXT^plain^{encoding}^One.").text == "One."
    xml = '<?xml version="1.0"?><ClinicalDocument/>'
    found = read(f"OBX|1|ED|1||^Text^text/xml^{encoding}^{xml}")
    assert found == ReportContent(omitted=("Text text/xml",))


@pytest.mark.parametrize("data", ["%%%%", "JVBERi0x===A", "JVBER"])
def test_invalid_base64(data: str) -> None:
    """Data that is not base64 is refused, with its place."""
    with pytest.raises(WrongDataType) as refused:
        read("OBX|1|TX|||One.", f"OBX|2|ED|1||^application^PDF^Base64^{data}")
    assert refused.value.place == "OBX[2]-5"


def test_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Data above the limit is refused before it is decoded."""
    monkeypatch.setattr(report_text, "MAX_PDF_BYTES", 300)
    assert read(encapsulated(PDF + b" " * 100)).pdfs
    with pytest.raises(ValueTooLong):
        read(encapsulated(PDF + b" " * 400))


def test_too_many_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of a report have a number and a size together; a file above the number is named."""
    monkeypatch.setattr(report_text, "MAX_PDF_FILES", 2)
    assert read(*[encapsulated(PDF)] * 3) == ReportContent(pdfs=(PDF, PDF), omitted=("PDF",))
    monkeypatch.setattr(report_text, "MAX_PDF_BYTES", len(PDF) + 10)
    with pytest.raises(ValueTooLong):
        read(encapsulated(PDF), encapsulated(PDF))


FINDINGS, IMPRESSION = "59776-5^Procedure findings^LN", "19005-8^Radiology impression^LN"


@pytest.mark.parametrize(
    ("segments", "expected"),
    [
        pytest.param(
            [("TX", FINDINGS, "No nodule."), ("TX", FINDINGS, "Heart normal."),
             ("TX", IMPRESSION, "Normal.")],
            "Procedure findings\nNo nodule.\nHeart normal.\n\nRadiology impression\nNormal.",
            id="one section for each OBX-3",
        ),
        pytest.param(
            [("TX", FINDINGS, "No nodule."), ("TX", FINDINGS, "Heart normal.")],
            "No nodule.\nHeart normal.",
            id="one section needs no name",
        ),
        pytest.param(
            [("TX", FINDINGS, "Findings~No nodule."), ("TX", IMPRESSION, "IMPRESSION: Normal.")],
            "Findings\nNo nodule.\n\nIMPRESSION: Normal.",
            id="the text begins with its name",
        ),
        pytest.param(
            [("ST", "&GDT", "Clavicle."), ("ST", "&GDT", "Two views."),
             ("ST", "&IMP", "Fracture.")],
            "Description\nClavicle.\nTwo views.\n\nImpression\nFracture.",
            id="suffixes of HL7 2.3",
        ),
        pytest.param(
            [("ST", "&GDT", "FINDINGS: Clavicle."), ("ST", "&IMP", "IMPRESSION: Fracture.")],
            "Description\nFINDINGS: Clavicle.\n\nIMPRESSION: Fracture.",
            id="suffixes of HL7 2.3, one line each",
        ),
        pytest.param(
            [("CE", "71020&IMP^Impression", "^Mass~^Infiltrate"), ("FT", "71020&GDT", "Density.")],
            "Impression\nMass\nInfiltrate\n\nDescription\nDensity.",
            id="coded impressions",
        ),
        pytest.param(
            [("TX", "", "Text."), ("TX", "R^Report", "More.")],
            "Text.\n\nReport\nMore.",
            id="a section without a name",
        ),
    ],
)  # fmt: skip
def test_sections(segments: list[tuple[str, str, str]], expected: str) -> None:
    rows = [f"OBX|1|{kind}|{name}|1|{value}||||||F" for kind, name, value in segments]
    assert read(*rows).text == expected


def test_measurements_have_names_and_units() -> None:
    found = read("OBX|1|NM|HB^Haemoglobin^L||13.2|g/dl", "OBX|2|NM|HT^Haematocrit^L||44|%")
    assert found.text == "Haemoglobin: 13.2 g/dl\nHaematocrit: 44 %"
    found = read("OBX|1|SN|V^Volume^L||>^100|ml", "OBX|2|SN|T^Titre^L||^1^:^128")
    assert found.text == "Volume: >100 ml\nTitre: 1:128"
    assert read("OBX|1|NM|HB^Haemoglobin^L||13.2|g/dl", "NTE|1||Lipaemic").text == (
        "13.2 g/dl\nLipaemic"
    )


def test_what_is_no_result_is_left_out() -> None:
    """OBX-11 O describes the order, such as the study UID of IHE; D deletes the OBX."""
    found = read(
        "OBX|1|ST|113014^DICOM Study^DCM||1.2.3||||||O",
        "NTE|1||Of the order",
        "OBX|2|TX|R^Report||Text.||||||F",
        "OBX|3|TX|R^Report||Wrong.||||||D",
    )
    assert found == ReportContent("Text.")


def test_comments_below_an_obx() -> None:
    """Comments of the order or the patient are not part of the report."""
    found = read("NTE|1||Of the order", "OBX|1|TX|R^Report||Text.", "NTE|1||Compared by phone.")
    assert found == ReportContent("Text.\nCompared by phone.")


def test_too_much_text() -> None:
    line = "OBX|1|TX|||" + "x" * 250_000
    assert len(read(line, line, line).text) == 750_002
    with pytest.raises(ValueTooLong):
        read(line, line, line, line, line)


WORDS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=30
)
LINES = WORDS.map(lambda text: text.strip() if text.strip() != '""' else "")


@given(
    st.lists(
        st.tuples(st.sampled_from(["TX", "FT", "ST"]), st.lists(LINES, min_size=1, max_size=4)),
        max_size=8,
    )
)
def test_no_text_is_lost(rows: list[tuple[str, list[str]]]) -> None:
    """Each line of any mixture of types and repetitions is in the text, in order."""
    if any(line.startswith("{\\rtf") for _, lines in rows for line in lines):
        return
    segments = [
        f"OBX|{number}|{kind}|||{'~'.join(map(escape, lines))}"
        for number, (kind, lines) in enumerate(rows, start=1)
    ]
    expected = [line for _, lines in rows for line in lines if line]
    assert [line for line in read(*segments).text.split("\n") if line] == expected


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["TX", "FT", "ST", "ED", "RP", "CE", "", "ZZ"]),
            st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=200)
            | st.binary(max_size=200).map(
                lambda data: "^a^b^Base64^" + base64.b64encode(data).decode()
            )
            | st.text("{}\\rtfpaubin'0123456789 ", max_size=80).map(
                lambda text: "{\\E\\rtf1" + text
            ),
        ),
        max_size=5,
    )
)
def test_any_content(rows: list[tuple[str, str]]) -> None:
    """Any content is read, or refused; the text has no control characters."""
    segments = [f"OBX|{n}|{kind}|1||{value}" for n, (kind, value) in enumerate(rows, start=1)]
    with suppress(MessageRefusal):
        text = read(*segments).text
        assert all(character in {"\n", "\t"} or character >= " " for character in text)
