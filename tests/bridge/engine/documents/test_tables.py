"""Tables and nested lists in every format."""

import zipfile
from collections.abc import Callable
from datetime import UTC
from io import BytesIO

import docx
import pytest

from bridge.engine.documents.exports import docx as docx_format
from bridge.engine.documents.exports import html, rtf
from bridge.engine.documents.exports.model import ExportedReport
from bridge.engine.rules.text.document import (
    Document,
    Heading,
    ListBlock,
    Mark,
    Paragraph,
    Table,
    TableCell,
    Text,
)
from tests.bridge.engine.documents.format_readers import from_pdf, from_rtf


def cell(text: str, *, header: bool = False) -> TableCell:
    return TableCell((Paragraph((Text(text),)),), header)


TABLE = Table(
    (
        (cell("Organ", header=True), cell("Size", header=True)),
        (cell("Liver"), cell("15 cm")),
        (cell("Spleen"),),
        (TableCell((ListBlock(((Text("kidney", (Mark.SUGGESTED,)),),)),)), cell("10 cm")),
    )
)
NESTED = ListBlock(
    ((Text("Lung"), ListBlock(((Text("apical"),),), ordered=True)), (Text("Heart"),))
)
BODY = Document((Heading("Findings"), TABLE, TABLE, NESTED))

Make = Callable[..., ExportedReport]


def test_html(make: Make) -> None:
    """A table has a header row, and a sublist is inside its item."""
    shown = html.fragment(make(BODY).body)

    assert shown.count('<table class="grid">') == 2
    assert '<thead><tr><th scope="col"><p>Organ</p></th><th scope="col"><p>Size</p></th>' in shown
    assert "<tr><td><p>Liver</p></td><td><p>15 cm</p></td></tr>" in shown
    assert "<tr><td><p>Spleen</p></td><td></td></tr>" in shown
    assert "<td><ul><li>kidney</li></ul></td>" in shown
    assert "<li>Lung<ol><li>apical</li></ol></li>" in shown
    assert "</ul></td>" in html.render(make(BODY), UTC)


def test_docx(make: Make) -> None:
    """Word opens two tables of two columns, whose first row is repeated on each page."""
    data = docx_format.render(make(BODY), UTC)
    tables = docx.Document(BytesIO(data)).tables[1:]

    assert [[each.text for each in row.cells] for row in tables[0].rows] == [
        ["Organ", "Size"],
        ["Liver", "15 cm"],
        ["Spleen", ""],
        ["kidney", "10 cm"],
    ]
    assert len(tables) == 2
    markup = zipfile.ZipFile(BytesIO(data)).read("word/document.xml").decode()
    assert markup.count("<w:tblHeader/>") == 2
    assert '<w:ilvl w:val="1"/>' in markup


def test_rtf(make: Make) -> None:
    """Each row has its cells; the sublist is indented twice."""
    data = rtf.render(make(BODY), UTC, content_only=True).decode()

    assert data.count("\\row\n") == 8
    assert data.count("\\cell\n") == 16
    assert data.count("\\trhdr") == 2
    assert "\\li640" in data
    assert "Liver|15 cm|" in from_rtf(make(BODY))


def test_pdf(make: Make) -> None:
    """The cells of a row are on one line, in their order."""
    lines = from_pdf(make(BODY)).splitlines()

    assert any("Liver" in line and "15 cm" in line for line in lines)
    assert any("1. apical" in line for line in lines)


@pytest.mark.parametrize("rows", [(), ((),), ((cell(""),), ())])
def test_empty_tables(make: Make, rows: tuple[tuple[TableCell, ...], ...]) -> None:
    """A table without rows or cells is accepted by every format."""
    report = make(Document((Table(rows), Paragraph((Text("end"),)))))

    assert "end" in html.render(report, UTC)
    assert "end" in from_rtf(report)
    assert docx.Document(BytesIO(docx_format.render(report, UTC))).paragraphs
