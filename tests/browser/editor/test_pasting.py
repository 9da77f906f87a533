"""Pasting from Word and Google Docs in Chromium: lists, emphasis, tables."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.editor.report_page import opened, phase
from tests.browser.engine_server import EngineServer

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PASTE = """
([selector, html]) => {
  const clipboardData = new DataTransfer();
  clipboardData.setData("text/html", html);
  const event = new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true });
  document.querySelector(selector).dispatchEvent(event);
}
"""


def paste(page: Page, html: str) -> None:
    """Paste markup at the caret."""
    page.focus("#text")
    page.evaluate(PASTE, ["#text", html])


def word(marker: str, text: str, level: int = 1) -> str:
    """Return a list paragraph as Word for Windows writes it."""
    return (
        f"<p class=MsoListParagraph style='text-indent:-18.0pt;mso-list:l0 level{level} lfo1'>"
        "<![if !supportLists]><span style='font-family:Symbol'><span style='mso-list:Ignore'>"
        f"{marker}<span style='font:7.0pt \"Times New Roman\"'>&nbsp;&nbsp; </span></span></span>"
        f"<![endif]><span lang=EN-US>{text}<o:p></o:p></span></p>"
    )


def test_word_lists_are_saved_as_lists(engine: EngineServer, page: Page) -> None:
    """Bulleted and numbered paragraphs of Word become list items."""
    opened(page, engine.launch())
    between = "<p class=MsoNormal>Impression<o:p></o:p></p>"
    markup = [word("·", "Nodule"), word("·", "Effusion"), between, word("1.", "a"), word("2.", "b")]
    paste(
        page, f"<html><body><!--StartFragment-->{''.join(markup)}<!--EndFragment--></body></html>"
    )
    expect(page.locator("#text ul > li")).to_have_text(["Nodule", "Effusion"])
    expect(page.locator("#text ol > li")).to_have_text(["a", "b"])
    phase(page, "saved")
    assert engine.content() == "- Nodule\n- Effusion\nImpression\n1. a\n2. b"


def test_google_docs_emphasis_and_nested_lists(engine: EngineServer, page: Page) -> None:
    """The page ignores the `<b>` around a Google Docs fragment and keeps nested lists."""
    opened(page, engine.launch())
    paste(
        page,
        '<meta charset="utf-8"><b style="font-weight:normal;" id="docs-internal-guid-1">'
        '<p dir="ltr"><span style="font-weight:400">Plain </span>'
        '<span style="font-weight:700">bold</span></p><ul><li aria-level="1"><p>outer</p></li>'
        '<ul><li aria-level="2"><p>inner</p></li></ul></ul></b>',
    )
    expect(page.locator("#text strong")).to_have_text(["bold"])
    expect(page.locator("#text ul ul > li")).to_have_text(["inner"])


def test_a_table_keeps_its_rows_and_can_be_left(engine: EngineServer, page: Page) -> None:
    """A pasted table keeps rows and cells; Tab moves between cells, an arrow key leaves it."""
    opened(page, engine.launch())
    cells = [("Node", "Size"), ("4R", "12 mm")]
    rows = "".join(
        f"<tr>{''.join(f'<td><p class=MsoNormal>{cell}</p></td>' for cell in row)}</tr>"
        for row in cells
    )
    paste(page, f"<table class=MsoTableGrid border=1>{rows}</table>")
    expect(page.locator("#text tr")).to_have_count(2)
    expect(page.locator("#text tr").last.locator("td")).to_have_text(["4R", "12 mm"])
    page.keyboard.press("Shift+Tab")
    page.keyboard.type("4L")
    expect(page.locator("#text td").nth(2)).to_have_text("4L")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    page.keyboard.type("below")
    expect(page.locator("#text > p")).to_have_text(["below"])
    phase(page, "saved")
    assert engine.content() == "Node  Size\n4L    12 mm\nbelow"


@pytest.mark.parametrize(
    "head",
    [
        "<style><!-- p.MsoNormal {margin:0cm; font-size:11.0pt;} @page {size:595.3pt} --></style>",
        "<style type='text/css'>li::marker { content: '>' }</style><style>broken { </style>",
        "<!--[if gte mso 9]><xml></xml><style>a{}</style><![endif]-->",
    ],
)
def test_the_style_sheet_of_word_violates_no_policy(
    engine: EngineServer, page: Page, head: str
) -> None:
    """The page neither applies nor reports the styles of the clipboard."""
    opened(page, engine.launch())
    body = (
        "<p class=MsoNormal STYLE='color:red' title='a > b style=x'>Nodule "
        '<span title=">" style="font-weight:bold" style="color:blue">8 mm</span>'
        "<span style=color:red>.</span></p>"
    )
    paste(page, f"<html><head>{head}</head><body>{body}</body></html>")
    expect(page.locator("#text")).to_have_text("Nodule 8 mm.")
    expect(page.locator("#text strong")).to_have_text(["8 mm"])
