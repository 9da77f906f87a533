"""Header and footer of printed pages, and line breaks."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC
from io import BytesIO
from typing import Any

import docx
import pypdf
import pytest

from bridge.engine.documents.exports import docx as docx_format
from bridge.engine.documents.exports import pdf, rtf
from bridge.engine.documents.exports.model import ExportedImage, ExportedReport, PageSize
from bridge.engine.documents.uploads.images import EncodedImage
from bridge.engine.rules.text.document import (
    Document,
    Heading,
    Mark,
    Paragraph,
    Table,
    TableCell,
    Text,
)

Make = Callable[..., ExportedReport]

TAGS = {
    "PatientName": "MADE^UP",
    "PatientMRN": "M-4711",
    "PatientBirthDate": "19700102",
    "Accession": "ACC-1",
}
POINTS = {PageSize.A4: (595, 842), PageSize.LETTER: (612, 792)}
MILLIMETRES = {PageSize.A4: (210, 297), PageSize.LETTER: (216, 279)}


def printed(
    report: ExportedReport, size: PageSize = PageSize.A4, *, orders: int = 1
) -> ExportedReport:
    """Return the report with the patient's tags, a site of this paper size, and so many orders."""
    named = tuple({**TAGS, "Accession": f"ACC-{n + 1}"} for n in range(orders))
    return replace(report, orders=named, site=replace(report.site, page_size=size))


def pages_of(report: ExportedReport) -> list[Any]:
    return list(pypdf.PdfReader(BytesIO(pdf.render(report, UTC))).pages)


def document_of(report: ExportedReport) -> Any:
    return docx.Document(BytesIO(docx_format.render(report, UTC)))


@pytest.mark.parametrize("size", PageSize)
def test_every_page_of_a_pdf_names_the_patient(make: Make, size: PageSize) -> None:
    """Each page has name, MRN, birth date, accession, page n of m, and the site's paper size."""
    pages = pages_of(printed(make("\n".join(["line"] * 150)), size))

    assert len(pages) > 2
    for number, page in enumerate(pages, 1):
        text = page.extract_text()
        for value in ("MADE, UP", "M-4711", "Jan 2, 1970", "ACC-1"):
            assert value in text
        assert f"Page {number} of {len(pages)}" in text
        assert (round(page.mediabox.width), round(page.mediabox.height)) == POINTS[size]


@pytest.mark.parametrize("size", PageSize)
def test_every_page_of_a_docx_names_the_patient(make: Make, size: PageSize) -> None:
    """The header names the patient; the footer has page fields; the paper size is the site's."""
    section = document_of(printed(make("x"), size)).sections[0]
    header = "\n".join(paragraph.text for paragraph in section.header.paragraphs)
    footer = section.footer._element.xml  # python-docx does not read fields

    for value in ("MADE, UP", "M-4711", "Jan 2, 1970", "ACC-1"):
        assert value in header
    assert footer.index(" PAGE ") < footer.index(" NUMPAGES ")
    assert (round(section.page_width.mm), round(section.page_height.mm)) == MILLIMETRES[size]


def test_every_page_of_an_rtf_names_the_patient(make: Make) -> None:
    """The RTF has the same header and footer; with `contentOnly` it has none."""
    report = printed(make("x"), PageSize.LETTER)
    data = rtf.render(report, UTC)
    header = data[data.index(b"{\\header") : data.index(b"{\\footer")]

    assert b"M-4711" in header
    assert b"NUMPAGES" in data
    assert b"\\paperw12240" in data
    assert b"M-4711" not in rtf.render(report, UTC, content_only=True)


def test_accessions_of_linked_orders(make: Make) -> None:
    """The header lists the first accessions and the number of further ones."""
    report = printed(make("x"), orders=9)

    assert "ACC-1, ACC-2, ACC-3, ACC-4 +5" in pages_of(report)[0].extract_text()


@pytest.mark.parametrize("length", [300, 30_000])
def test_long_text_without_spaces_wraps(make: Make, length: int) -> None:
    """No line exceeds the page, and the extracted text has no additional characters."""
    word = ("ABCDEFGHIJ" * length)[:length]
    pages = pages_of(printed(make(word)))
    lines = "\n".join(page.extract_text() for page in pages).splitlines()
    text = "".join(line for line in lines if set(line) <= set("ABCDEFGHIJ"))

    assert text == word
    assert max(map(len, (line for line in lines if line in word))) < 90


def test_a_wide_table_stays_on_the_page(make: Make) -> None:
    """In narrow columns long words continue on the next line."""
    cells = tuple(
        TableCell((Paragraph((Text(f"Homogeneous{letter}"),)),)) for letter in "ABCDEFGHIJKL"
    )
    pages = pages_of(printed(make(Document((Table((cells,)),)))))
    text = pages[0].extract_text()

    assert "Homogeneous" not in text
    assert text.count("Homo") == len(cells)


def test_latin_emphasis_in_an_east_asian_report(make: Make) -> None:
    """Bold, italic and headings in Latin letters use Latin fonts."""
    body = Document(
        (
            Heading("Findings"),
            Paragraph((Text("bold", (Mark.BOLD,)), Text("slanted", (Mark.ITALIC,)), Text("両肺"))),
        )
    )
    data = pdf.render(make(body, "ja-JP"), UTC)

    for face in (b"LibertinusSerif-Bold", b"LibertinusSerif-Italic", b"NotoSansCJKjp"):
        assert face in data


@pytest.fixture
def key_image(picture: ExportedImage) -> EncodedImage:
    return EncodedImage("image/png", picture.data, hashlib.sha256(picture.data).hexdigest(), 60, 20)


def test_key_images_are_printed(make: Make, key_image: EncodedImage) -> None:
    """PDF and DOCX show key images under a heading, with the number of omitted ones."""
    report = printed(make("x"))
    shown = replace(report, key_images=(key_image,), images_left_out=3)

    text = "".join(page.extract_text() for page in pages_of(shown))
    assert "Key images" in text
    assert "3 more key images" in text
    assert len(document_of(shown).inline_shapes) == len(document_of(report).inline_shapes) + 1
    assert "Key images" not in "".join(page.extract_text() for page in pages_of(report))
