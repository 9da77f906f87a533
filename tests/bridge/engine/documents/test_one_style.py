"""Lists, key images, emoji, font and file names of all export formats."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC
from io import BytesIO
from typing import Any
from urllib.parse import unquote

import docx
import pypdf
import pytest

from bridge.engine.documents.exports import docx as docx_format
from bridge.engine.documents.exports import file_names, html, pdf, rtf
from bridge.engine.documents.exports.model import ExportedImage, ExportedReport
from bridge.engine.documents.uploads.images import EncodedImage
from bridge.engine.rules.text.plain_text import from_outline

Make = Callable[..., ExportedReport]

LISTS = from_outline("- a\n  1. b\n  2. c\n- d\nBetween\n1. e\n2. f\nAgain\n1. g")


def test_word_has_lists_that_begin_at_one(make: Make) -> None:
    """Each numbered list has its own number; bulleted lists share one; no marker is text."""
    document = docx.Document(BytesIO(docx_format.render(make(LISTS), UTC)))
    paragraphs: list[Any] = list(document.paragraphs)
    places = [
        (paragraph.text, paragraph._p.pPr.numPr)
        for paragraph in paragraphs
        if paragraph._p.pPr is not None
    ]
    numbered = [
        (text, place.numId.val, place.ilvl.val) for text, place in places if place is not None
    ]
    assert [(text, level) for text, _, level in numbered] == [
        *(("a", 0), ("b", 1), ("c", 1), ("d", 0), ("e", 0), ("f", 0), ("g", 0)),
    ]
    number = {text: item for text, item, _ in numbered}
    assert number["a"] == number["d"]
    assert number["b"] == number["c"]
    assert number["e"] == number["f"]
    assert len({number["a"], number["b"], number["e"], number["g"]}) == 4
    declared = [item.numId for item in document.part.numbering_part.element.num_lst]
    assert set(number.values()) <= set(declared)


def test_rtf_has_lists(make: Make) -> None:
    """Each list that a paragraph names is declared, and a numbered list begins at 1."""
    data = rtf.render(make(LISTS), UTC).decode("ascii")
    used = re.findall(r"\\pard\\plain\\ls(\d+)\\ilvl0", data)
    assert used == ["1", "2", "2", "1", "3", "3", "4"]
    assert set(used) == set(re.findall(r"\\listoverridecount0\\ls(\d+)", data))
    numbers = re.findall(r"\{\\listtext (\d+\.)\\tab\}", data)
    assert numbers == ["1.", "2.", "1.", "2.", "1."]
    assert data.count(r"{\listtext \u8226 ?\tab}") == 2


def test_pdf_has_bullets(make: Make) -> None:
    text = pypdf.PdfReader(BytesIO(pdf.render(make(LISTS), UTC))).pages[0].extract_text()
    assert [" ".join(line.split()) for line in text.splitlines() if re.match(r"[•\d]", line)] == [
        *("• a", "1. b", "2. c", "• d", "1. e", "2. f", "1. g"),
    ]


def with_images(report: ExportedReport, picture: ExportedImage) -> ExportedReport:
    digest = hashlib.sha256(picture.data).hexdigest()
    image = EncodedImage(picture.media_type, picture.data, digest, 60, 20)
    return replace(report, key_images=(image,), images_left_out=2)


def test_html_and_rtf_have_key_images(make: Make, picture: ExportedImage) -> None:
    """They follow the addenda under a heading; the content alone has none."""
    plain, report = make("x", addenda=("y",)), with_images(make("x", addenda=("y",)), picture)
    shown = html.render(report, UTC)
    assert shown.count("data:image/") == html.render(plain, UTC).count("data:image/") + 1
    assert "2 more key images" in shown[shown.index("<h2>Key images</h2>") :]
    data = rtf.render(report, UTC)
    assert data.count(b"blip") == rtf.render(plain, UTC).count(b"blip") + 1
    assert b"Key images" in data
    assert b"blip" not in rtf.render(report, UTC, content_only=True)


def test_one_font_in_all_formats(make: Make) -> None:
    """A serif face, in the sizes of the PDF."""
    assert b"\\froman\\fcharset0 Cambria;" in rtf.render(make("x"), UTC)
    assert "Cambria" in html.STYLE
    styles = docx.Document(BytesIO(docx_format.render(make("x"), UTC))).styles
    found = {
        name: (styles[name].font.name, styles[name].font.size.pt) for name in ("Normal", "Title")
    }
    assert found == {"Normal": ("Cambria", 10.5), "Title": ("Cambria", 16.0)}


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("Good 👍", "Good (thumbs up sign)"),
        ("Good 👍🏽.", "Good (thumbs up sign)."),
        ("From 🇩🇪", "From DE"),
        ("結節なし 홍길동", "結節なし 홍길동"),
        ("10⁹/l CO₂ 3 cm²", "10⁹/l CO₂ 3 cm²"),
    ],
)
def test_no_character_is_an_empty_box(make: Make, text: str, printed: str) -> None:
    """An emoji is written as its name, and every other character has a font."""
    (page,) = pypdf.PdfReader(BytesIO(pdf.render(make(text), UTC))).pages
    assert printed in " ".join(page.extract_text().split())


@pytest.mark.parametrize(
    ("tags", "name"),
    [
        (
            {"Modality": "CT", "StudyDescription": "CT Chest", "StudyDate": "20260131"},
            "CT Chest 2026-01-31 3f9a2c11.pdf",
        ),
        (
            {"Modality": "MR", "StudyDescription": 'Knie/links: "T1"', "StudyDate": "20260131"},
            "MR Knie links T1 2026-01-31 3f9a2c11.pdf",
        ),
        ({"Modality": "DX", "BodyPartExamined": "胸部"}, "DX 胸部 3f9a2c11.pdf"),
        ({}, "Imaging report 3f9a2c11.pdf"),
        ({"StudyDescription": "../../etc\r\nX: y"}, "etc X y 3f9a2c11.pdf"),
    ],
)
def test_the_name_of_a_file(make: Make, tags: dict[str, str], name: str) -> None:
    """It has study, date and a short id, and neither the patient's name nor number."""
    order = {"PatientName": "MADE^UP", "PatientMRN": "M1", "Accession": "ACC-9", **tags}
    report = replace(make("x"), orders=(order,), report_id="3f9a2c11deadbeef")
    assert file_names.file_name(report, "pdf") == name
    header = file_names.attachment(report, "pdf")
    assert header.isascii()
    assert "\n" not in header
    assert unquote(header.partition("filename*=UTF-8''")[2]).endswith(" 3f9a2c11.pdf")
    assert not {"MADE", "M1", "ACC-9"} & set(re.split(r"\W", header))
