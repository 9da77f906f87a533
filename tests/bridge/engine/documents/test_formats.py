"""Every format contains the same text: 17 languages, hostile text, a megabyte."""

# ruff: noqa: RUF001  # real text of 17 languages has their own punctuation

import time
from collections.abc import Callable
from datetime import UTC

import pytest

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
    Text,
)
from tests.bridge.engine.documents.format_readers import (
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
