"""Every format contains the same text: 17 languages, hostile text, a megabyte."""

# ruff: noqa: RUF001  # real text of 17 languages has their own punctuation

import time
import zipfile
from collections.abc import Callable
from datetime import UTC
from io import BytesIO

import docx
import pytest

from bridge.engine.documents.errors import PdfUnavailable
from bridge.engine.documents.exports import docx as docx_format
from bridge.engine.documents.exports import html, pdf, rtf
from bridge.engine.documents.exports.model import ExportedReport
from bridge.engine.rules.text.document import (
    BracketField,
    Document,
    Heading,
    ListBlock,
    Mark,
    Paragraph,
    Table,
    TableCell,
    Text,
)
from tests.bridge.engine.documents.format_readers import (
    HTMLReader,
    from_docx,
    from_html,
    from_pdf,
    from_rtf,
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


def squeeze(value: str) -> str:
    """Remove white space, because formats break lines differently."""
    return "".join(value.split())


READERS = {"html": from_html, "rtf": from_rtf, "docx": from_docx}
READ = [pytest.param(read, id=name) for name, read in READERS.items()]
READ.append(pytest.param(from_pdf, id="pdf"))

Reader = Callable[[ExportedReport], str]


@pytest.mark.parametrize("read", READ)
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language(read: Reader, language: str, make: Callable[..., ExportedReport]) -> None:
    """The text read from the file equals the written text."""
    assert squeeze(LANGUAGES[language]) in squeeze(read(make(LANGUAGES[language], language)))


@pytest.mark.parametrize("read", READ)
def test_all_scripts_in_one_report(read: Reader, make: Callable[..., ExportedReport]) -> None:
    """Including characters outside the basic plane."""
    mixed = "\n".join([*LANGUAGES.values(), "𠮷野家"])
    assert squeeze(mixed) in squeeze(read(make(mixed)))


@pytest.mark.parametrize("read", READ)
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_text_is_text(read: Reader, kind: str, make: Callable[..., ExportedReport]) -> None:
    """Markup in a report is shown as text in every format."""
    assert squeeze(HOSTILE[kind]) in squeeze(read(make(HOSTILE[kind])))


@pytest.mark.parametrize("read", READ)
def test_control_characters_are_removed(read: Reader, make: Callable[..., ExportedReport]) -> None:
    """The characters next to them are kept."""
    body = Document((Paragraph((Text("a\x00b\x1b[31m\x0bc\ud800d\ufffee"),)),))
    assert squeeze("ab[31mcde") in squeeze(read(make(body)))


@pytest.mark.parametrize("read", READ)
def test_structure(read: Reader, make: Callable[..., ExportedReport]) -> None:
    """Sections, lists, emphasis and open fields keep their text and order."""
    body = Document(
        (
            Heading("Findings"),
            Paragraph(
                (Text("bold", (Mark.BOLD, Mark.ITALIC, Mark.UNDERLINE)), BracketField("side"))
            ),
            ListBlock(((Text("one"),), (BracketField("n", "two"),))),
        )
    )
    assert squeeze("Findings bold[side]") in squeeze(read(make(body)))
    assert squeeze(read(make(body))).index("one") < squeeze(read(make(body))).index("two")


@pytest.mark.parametrize("read", READ)
def test_addenda_follow_the_report(read: Reader, make: Callable[..., ExportedReport]) -> None:
    """Signed addenda come after the report, oldest first."""
    report = make("first", addenda=("second", "third"))
    shown = html.render(report, UTC) if read is from_html else read(report)
    assert shown.index("first") < shown.index("second") < shown.index("third")


@pytest.mark.parametrize(
    "render",
    [
        pytest.param(html.render, id="html"),
        pytest.param(rtf.render, id="rtf"),
        pytest.param(docx_format.render, id="docx"),
        pytest.param(pdf.render, id="pdf"),
    ],
)
@pytest.mark.parametrize("line", ["The lungs are clear. " * 20, "肺野は清明です。흉수 없음。" * 12])
def test_a_megabyte_in_time(
    render: Callable[..., object], line: str, make: Callable[..., ExportedReport]
) -> None:
    """1 MB of report content takes less than two seconds on two processors."""
    report = make("\n".join([line] * (1_000_000 // len(line.encode()))))
    begin = time.process_time()
    render(report, UTC)
    assert time.process_time() - begin < 2 * 2  # the PDF writer works on both processors


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

    assert [[item.text for item in row.cells] for row in tables[0].rows] == [
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
