"""Readers of the export formats, independent of the writers."""

from datetime import UTC
from html.parser import HTMLParser
from io import BytesIO

import docx
import pypdf
from striprtf.striprtf import rtf_to_text
from typing_extensions import override

from bridge.engine.documents.exports import docx as docx_format
from bridge.engine.documents.exports import html, pdf, rtf
from bridge.engine.documents.exports.model import ExportedReport


class HTMLReader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.inside: dict[str, list[str]] = {}
        self._open: list[str] = []

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in {"img", "meta", "br"}:
            self._open.append(dict(attrs).get("class") or "")

    @override
    def handle_endtag(self, tag: str) -> None:
        self._open.pop()
        if tag in {"p", "li", "h3"}:
            self.handle_data("\n")

    @override
    def handle_data(self, data: str) -> None:
        for name in set(self._open):
            self.inside.setdefault(name, []).append(data)


def from_html(report: ExportedReport) -> str:
    """Return the text of `report-content`, with the line ends of the markup between blocks."""
    reader = HTMLReader()
    reader.feed(html.render(report, UTC))
    return "".join(reader.inside["report-content"])


def from_rtf(report: ExportedReport) -> str:
    """Read the RTF with striprtf, which does not join surrogate pairs."""
    read = str(rtf_to_text(rtf.render(report, UTC).decode("ascii")))
    return read.encode("utf-16", "surrogatepass").decode("utf-16")


def from_docx(report: ExportedReport) -> str:
    document = docx.Document(BytesIO(docx_format.render(report, UTC)))
    return "\n".join(paragraph.text for paragraph in document.paragraphs)


def from_pdf(report: ExportedReport) -> str:
    reader = pypdf.PdfReader(BytesIO(pdf.render(report, UTC)))
    return "\n".join(page.extract_text() for page in reader.pages)
