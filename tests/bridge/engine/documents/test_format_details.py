"""Properties of single formats."""

import zipfile
from collections.abc import Callable
from datetime import UTC
from io import BytesIO

import pytest

from bridge.engine.documents.errors import PdfUnavailable
from bridge.engine.documents.exports import docx as docx_format
from bridge.engine.documents.exports import html, pdf, rtf
from bridge.engine.documents.exports.model import ExportedReport
from tests.bridge.engine.documents.format_readers import HTMLReader


class TestHtml:
    def test_unsigned_banner(self, make: Callable[..., ExportedReport]) -> None:
        assert "NOT SIGNED" in html.render(make("x", signed=False), UTC)
        assert "NOT SIGNED" not in html.render(make("x"), UTC)

    def test_self_contained(self, make: Callable[..., ExportedReport]) -> None:
        """No script, link or external address; the language is set, and images are inline."""
        reader = HTMLReader()
        shown = html.render(make("x", "pl-PL"), UTC)
        reader.feed(shown)
        assert not {"script", "link", "iframe", "object", "a"} & set(reader.tags)
        assert '<html lang="pl-PL">' in shown
        assert shown.count("data:image/png;base64,") == 3
        assert "http://" not in shown
        assert "https://" not in shown

    def test_hostile_language_and_names(self, make: Callable[..., ExportedReport]) -> None:
        """Text outside the content is escaped too."""
        shown = html.render(make("x", '"><script>'), UTC)
        assert "<script" not in shown

    def test_indent_is_kept(self, make: Callable[..., ExportedReport]) -> None:
        """Spaces at the start of a line and blank lines are kept."""
        assert "<p>  two</p>\n<p></p>" in html.render(make("  two\n\nx"), UTC)


class TestRtf:
    def test_images_and_signatures(self, make: Callable[..., ExportedReport]) -> None:
        """Header, footer and signature are pictures in the file."""
        data = rtf.render(make("x"), UTC)
        assert data.count(b"\\pngblip") == 3
        assert b"{\\header" in data
        assert b"{\\footer" in data

    def test_groups_balance(self, make: Callable[..., ExportedReport]) -> None:
        """Braces in the text do not open or close a group."""
        data = rtf.render(make("}}}{{{\\"), UTC).decode("ascii")
        depth = [1 if c == "{" else -1 for c in data if c in "{}"]
        assert sum(depth) == 0
        assert all(sum(depth[:n]) > 0 for n in range(1, len(depth)))

    def test_signed_units(self) -> None:
        r"""`\u` has signed 16-bit units, two for a character outside the basic plane."""
        assert rtf.escape("é한𠮷") == r"\u233?\u-10916?\u-10174?\u-8265?"


class TestDocx:
    def test_east_asian_font(self, make: Callable[..., ExportedReport]) -> None:
        """Each style names an East Asian font of the report's language."""
        data = docx_format.render(make("한글", "ko-KR"), UTC)
        styles = zipfile.ZipFile(BytesIO(data)).read("word/styles.xml").decode()
        assert 'w:eastAsia="Malgun Gothic"' in styles

    def test_images(self, make: Callable[..., ExportedReport]) -> None:
        """Header, footer and signature images are in the package."""
        names = zipfile.ZipFile(BytesIO(docx_format.render(make("x"), UTC))).namelist()
        assert any(name.startswith("word/media/") for name in names)
        assert {"word/header1.xml", "word/footer1.xml"} <= set(names)


class TestPdf:
    def test_missing_writer(
        self, make: Callable[..., ExportedReport], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without the writer the error names the package to install."""
        monkeypatch.setattr(pdf, "WRITER", "no_such_writer")
        with pytest.raises(PdfUnavailable, match="no_such_writer"):
            pdf.render(make("x"), UTC)

    def test_fonts_are_embedded(self, make: Callable[..., ExportedReport]) -> None:
        """A Japanese report contains the Japanese font, a Chinese report the Chinese one."""
        assert b"NotoSansCJKjp" in pdf.render(make("測定", "ja-JP"), UTC)
        assert b"NotoSansCJKsc" in pdf.render(make("测定", "zh-CN"), UTC)
