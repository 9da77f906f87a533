"""Every format carries the same text: 17 languages, hostile text, a megabyte."""

# ruff: noqa: RUF001  # real text of 17 languages has their own punctuation

import time
import zipfile
from collections.abc import Callable
from datetime import UTC
from html.parser import HTMLParser
from importlib.util import find_spec
from io import BytesIO

import docx
import pypdf
import pytest
from striprtf.striprtf import rtf_to_text

from bridge.engine.documents import docx as docx_format
from bridge.engine.documents import html, pdf, rtf, text
from bridge.engine.documents.errors import PdfUnavailable
from bridge.engine.documents.model import Exported
from bridge.engine.rules.document import (
    Document,
    Field,
    ListBlock,
    Mark,
    Paragraph,
    Section,
    Text,
    from_text,
    plain_text,
)

LANGUAGES = {
    "en-US": "No acute finding.",
    "en-GB": "Oedema of the left ankle; 3 × 4 mm.",
    "en-AU": "Normal study – no change.",
    "zh-CN": "心脏大小正常，未见胸腔积液。",
    "zh-Hant": "心臟大小正常，未見胸腔積液。",
    "nl-NL": "Geen pleuravocht, één nodulus in de bovenkwab; reëel.",
    "fr-FR": "Cœur de taille normale, épanchement pleural à gauche.",
    "fr-CA": "Aucune lésion focale; aorte déroulée.",
    "de-DE": "Größe regelrecht, kein Erguß, Übergang unauffällig.",
    "id-ID": "Tidak tampak efusi pleura.",
    "it-IT": "Non versamento pleurico; perché già noto.",
    "ja-JP": "肺野は清明です。胸水を認めません。ﾃｽﾄ",
    "ko-KR": "심장 크기는 정상이며 흉수는 없습니다.",
    "pl-PL": "Płuca bez zmian ogniskowych, łagodne zwężenie; źdźbło.",
    "pt-BR": "Coração de dimensões normais, não há derrame.",
    "ro-RO": "Fără leziuni; țesuturi moi, ștergerea conturului ăîâ.",
    "es-ES": "Riñón de tamaño normal; ¿lesión pequeña?",
}
HOSTILE = {
    "script": "<script>alert(1)</script><img src=x onerror=alert(1)> </div></body> &lt;b&gt;",
    "RTF control words": r"{\rtf1 \object\bin99999 }}} {\*\x} \u1234? \'e4 \par",
    "HL7 delimiters": r"MSH|^~\&|a^b~c\T\d",
    "typst markup": '#read("x") #{ } $x$ `raw` *b* _i_ @ref <label> // comment /* */ \\',
    "XML": "]]> <?x?> <!-- --> &amp; &#0; <w:p>",
    "path names": "../../x C:\\y file:///z",
}
PDF_MISSING = [each for each in ("typst", "noto_cjk_sans_otc") if find_spec(each) is None]
needs_pdf = pytest.mark.skipif(bool(PDF_MISSING), reason=f"not installed: {PDF_MISSING}")


class _Reader(HTMLParser):
    """Collects tags, and the text inside each element of a class."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.inside: dict[str, list[str]] = {}
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in {"img", "meta", "br"}:
            self._open.append(dict(attrs).get("class") or "")

    def handle_endtag(self, tag: str) -> None:
        self._open.pop()
        if tag in {"p", "li", "h3"}:
            self.handle_data("\n")

    def handle_data(self, data: str) -> None:
        for name in set(self._open):
            self.inside.setdefault(name, []).append(data)


def from_html(report: Exported) -> str:
    """Return the text of `report-content`; the markup between blocks has line ends too."""
    reader = _Reader()
    reader.feed(html.render(report, UTC))
    return "".join(reader.inside["report-content"])


def from_rtf(report: Exported) -> str:
    """Read the RTF with striprtf, which leaves surrogate pairs apart."""
    read = str(rtf_to_text(rtf.render(report, UTC).decode("ascii")))
    return read.encode("utf-16", "surrogatepass").decode("utf-16")


def from_docx(report: Exported) -> str:
    """Re-open the DOCX."""
    document = docx.Document(BytesIO(docx_format.render(report, UTC)))
    return "\n".join(paragraph.text for paragraph in document.paragraphs)


def from_pdf(report: Exported) -> str:
    """Extract the text of every page."""
    reader = pypdf.PdfReader(BytesIO(pdf.render(report, UTC)))
    return "\n".join(page.extract_text() for page in reader.pages)


def squeeze(value: str) -> str:
    """Drop white space: where lines break is each format's own business."""
    return "".join(value.split())


READERS = {"html": from_html, "rtf": from_rtf, "docx": from_docx}
READ = [pytest.param(read, id=name) for name, read in READERS.items()]
READ.append(pytest.param(from_pdf, id="pdf", marks=needs_pdf))

Reader = Callable[[Exported], str]


@pytest.mark.parametrize("read", READ)
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language(read: Reader, language: str, make: Callable[..., Exported]) -> None:
    """A report in each of the 17 languages reads back as it was written."""
    assert squeeze(LANGUAGES[language]) in squeeze(read(make(LANGUAGES[language], language)))


@pytest.mark.parametrize("read", READ)
def test_all_scripts_in_one_report(read: Reader, make: Callable[..., Exported]) -> None:
    """Scripts mix freely, characters outside the basic plane included."""
    mixed = "\n".join([*LANGUAGES.values(), "𠮷野家"])
    assert squeeze(mixed) in squeeze(read(make(mixed)))


@pytest.mark.parametrize("read", READ)
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_text_is_text(read: Reader, kind: str, make: Callable[..., Exported]) -> None:
    """Markup of any format in a report is shown as the text it is."""
    assert squeeze(HOSTILE[kind]) in squeeze(read(make(HOSTILE[kind])))


@pytest.mark.parametrize("read", READ)
def test_control_characters_vanish(read: Reader, make: Callable[..., Exported]) -> None:
    """Characters that no file may carry are dropped, their neighbours stay."""
    body = Document((Paragraph((Text("a\x00b\x1b[31m\x0bc\ud800d\ufffee"),)),))
    assert squeeze("ab[31mcde") in squeeze(read(make(body)))


@pytest.mark.parametrize("read", READ)
def test_structure(read: Reader, make: Callable[..., Exported]) -> None:
    """Sections, lists, emphasis and open fields keep their text and order."""
    body = Document(
        (
            Section("Findings"),
            Paragraph((Text("bold", (Mark.BOLD, Mark.ITALIC, Mark.UNDERLINE)), Field("side"))),
            ListBlock(((Text("one"),), (Field("n", "two"),))),
        )
    )
    assert squeeze("Findings bold[side]") in squeeze(read(make(body)))
    assert squeeze(read(make(body))).index("one") < squeeze(read(make(body))).index("two")


@pytest.mark.parametrize("read", READ)
def test_addenda_follow_the_report(read: Reader, make: Callable[..., Exported]) -> None:
    """Signed addenda stand after the report, oldest first."""
    report = make("first", addenda=("second", "third"))
    shown = html.render(report, UTC) if read is from_html else read(report)
    assert shown.index("first") < shown.index("second") < shown.index("third")


@pytest.mark.parametrize(
    "render",
    [
        pytest.param(html.render, id="html"),
        pytest.param(rtf.render, id="rtf"),
        pytest.param(docx_format.render, id="docx"),
        pytest.param(pdf.render, id="pdf", marks=needs_pdf),
    ],
)
@pytest.mark.parametrize("line", ["The lungs are clear. " * 20, "肺野は清明です。흉수 없음。" * 12])
def test_a_megabyte_in_time(
    render: Callable[..., object], line: str, make: Callable[..., Exported]
) -> None:
    """1 MB of report content takes less than two seconds on two processors."""
    report = make("\n".join([line] * (1_000_000 // len(line.encode()))))
    begin = time.process_time()
    render(report, UTC)
    assert time.process_time() - begin < 2 * 2  # the PDF writer works on both processors


class TestHtml:
    """Interface document, export/html."""

    def test_classes(self, make: Callable[..., Exported]) -> None:
        """One report-content, one report-addendum-content per signed addendum."""
        shown = html.render(make("report", addenda=("a", "b")), UTC)
        assert shown.count('class="report-content"') == 1
        assert shown.count('class="report-addendum-content"') == 2

    def test_content_alone_is_inside(self, make: Callable[..., Exported]) -> None:
        """Neither banner nor signature nor patient stand inside `report-content`."""
        assert from_html(make("only this", signed=False)).strip() == "only this"
        assert from_html(make("only this")).strip() == "only this"

    def test_unsigned_banner(self, make: Callable[..., Exported]) -> None:
        """An unsigned report says so, a signed one does not."""
        assert "NOT SIGNED" in html.render(make("x", signed=False), UTC)
        assert "NOT SIGNED" not in html.render(make("x"), UTC)

    def test_self_contained(self, make: Callable[..., Exported]) -> None:
        """No script, no link, no address but data; language set; images inline."""
        reader = _Reader()
        shown = html.render(make("x", "pl-PL"), UTC)
        reader.feed(shown)
        assert not {"script", "link", "iframe", "object", "a"} & set(reader.tags)
        assert '<html lang="pl-PL">' in shown
        assert shown.count("data:image/png;base64,") == 3
        assert "http://" not in shown
        assert "https://" not in shown

    def test_hostile_language_and_names(self, make: Callable[..., Exported]) -> None:
        """What stands around the content is escaped as well."""
        shown = html.render(make("x", '"><script>'), UTC)
        assert "<script" not in shown

    def test_indent_is_kept(self, make: Callable[..., Exported]) -> None:
        """Spaces at the start of a line and blank lines stay."""
        assert "<p>  two</p>\n<p></p>" in html.render(make("  two\n\nx"), UTC)


class TestRtf:
    """Interface document, export/rtf."""

    def test_content_only(self, make: Callable[..., Exported]) -> None:
        """`contentOnly` gives report and addenda, without images, people and patient."""
        data = rtf.render(make("the report", addenda=("the addendum",)), UTC, content_only=True)
        assert b"\\pict" not in data
        assert rtf_to_text(data.decode()).split() == ["the", "report", "the", "addendum"]

    def test_images_and_signatures(self, make: Callable[..., Exported]) -> None:
        """Header, footer and signature are pictures in the file."""
        data = rtf.render(make("x"), UTC)
        assert data.count(b"\\pngblip") == 3
        assert b"{\\header" in data
        assert b"{\\footer" in data

    def test_groups_balance(self, make: Callable[..., Exported]) -> None:
        """Braces of hostile text never open or close a group."""
        data = rtf.render(make("}}}{{{\\"), UTC).decode("ascii")
        depth = [1 if c == "{" else -1 for c in data if c in "{}"]
        assert sum(depth) == 0
        assert all(sum(depth[:n]) > 0 for n in range(1, len(depth)))

    def test_signed_units(self) -> None:
        r"""`\u` takes signed 16-bit units, two for a character outside the basic plane."""
        assert rtf.escape("é한𠮷") == r"\u233?\u-10916?\u-10174?\u-8265?"


class TestDocx:
    """The DOCX as other programs will see it."""

    def test_east_asian_font(self, make: Callable[..., Exported]) -> None:
        """Each style names an East Asian font of the report's language."""
        data = docx_format.render(make("한글", "ko-KR"), UTC)
        styles = zipfile.ZipFile(BytesIO(data)).read("word/styles.xml").decode()
        assert 'w:eastAsia="Malgun Gothic"' in styles

    def test_images(self, make: Callable[..., Exported]) -> None:
        """Header, footer and signature images are in the package."""
        names = zipfile.ZipFile(BytesIO(docx_format.render(make("x"), UTC))).namelist()
        assert any(name.startswith("word/media/") for name in names)
        assert {"word/header1.xml", "word/footer1.xml"} <= set(names)


class TestPdf:
    """What is special about PDF."""

    def test_missing_writer(
        self, make: Callable[..., Exported], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without the writer the error names the package to install."""
        monkeypatch.setattr(pdf, "WRITER", "no_such_writer")
        with pytest.raises(PdfUnavailable, match="no_such_writer"):
            pdf.render(make("x"), UTC)

    @needs_pdf
    def test_fonts_are_embedded(self, make: Callable[..., Exported]) -> None:
        """A Japanese report brings the Japanese face along, a Chinese one the Chinese."""
        assert b"NotoSansCJKjp" in pdf.render(make("測定", "ja-JP"), UTC)
        assert b"NotoSansCJKsc" in pdf.render(make("测定", "zh-CN"), UTC)


def test_plain_text(make: Callable[..., Exported]) -> None:
    """The text form has the report first, each addendum under its heading."""
    shown = text.render(make("report", addenda=("more",)), UTC)
    assert shown.startswith("report\n\nElectronically signed by Dr. Vera Invented")
    assert "Addendum\n\nmore\n\n" in shown
    assert text.content(from_text("a\n b")) == plain_text(from_text("a\n b"))
