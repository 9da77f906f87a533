"""The report by keyboard alone: pick lists, default text, dialogs, undo, saving."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.editor.report_page import opened, phase, typed
from tests.browser.editor.test_writing_aids import selected
from tests.browser.engine_server import OTHER, EngineServer

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def field(label: str, value: str = "") -> dict[str, str]:
    return {"type": "field", "label": label, "value": value}


def line(text: str, *fields: dict[str, str]) -> dict[str, object]:
    return {"type": "paragraph", "content": [{"type": "text", "text": text}, *fields]}


def templated(engine: EngineServer, page: Page, *content: dict[str, object]) -> None:
    document = {"type": "doc", "content": list(content)}
    engine.call("PUT", "admin/sites/SITE1/templates/7", {"name": "Chest", "document": document})
    opened(page, engine.launch(reportingApp={"ApplyTemplate": 7}))
    page.click("#text p >> nth=0", position={"x": 1, "y": 5})
    page.keyboard.press("Control+Home")


def test_a_pick_list_opens_at_its_bracket_and_is_chosen_by_arrows(
    engine: EngineServer, page: Page
) -> None:
    """Arrow keys move, and Enter selects the choice and closes the list."""
    templated(
        engine,
        page,
        line("Heart: ", field("normal / enlarged / not seen")),
        line("Lungs: ", field("clear|opaque")),
    )
    page.keyboard.press("Tab")
    choices = page.locator(".choices")
    expect(choices.locator(".active")).to_have_text("normal")
    bracket, box = page.locator("#text .bracket").first.bounding_box(), choices.bounding_box()
    assert bracket
    assert box
    assert abs(box["x"] - bracket["x"]) < 10
    assert 0 <= box["y"] - (bracket["y"] + bracket["height"]) < 20
    page.keyboard.press("ArrowDown")
    expect(choices.locator(".active")).to_have_text("enlarged")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(choices.locator(".active")).to_have_text("not seen")
    page.keyboard.press("Enter")
    expect(choices).to_have_count(0)
    page.keyboard.press("Tab")
    expect(choices.locator(".active")).to_have_text("clear")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    phase(page, "saved")
    assert engine.content() == "Heart: not seen\nLungs: opaque"


def test_default_text_and_requests_are_two_kinds(engine: EngineServer, page: Page) -> None:
    """Tab visits both; default text is signed as it is, and a request is reported."""
    templated(
        engine,
        page,
        line("Lungs: ", field("lungs", "Unremarkable.")),
        line("Heart: ", field("Unremarkable.")),
        line("Bones: ", field("bones", "Intact.")),
    )
    expect(page.locator("#text .default-text")).to_have_text(["Unremarkable.", "Intact."])
    request = page.get_by_role("group", name="Request \u201cUnremarkable.\u201d", exact=False)
    expect(request).to_have_text("[Unremarkable.]")
    default = page.get_by_role("group", name="Default text \u201cbones\u201d", exact=False)
    expect(default).to_have_text("Intact.")
    page.keyboard.press("Tab")
    assert selected(page) == "Unremarkable."
    page.keyboard.press("Tab")
    assert selected(page) == "[Unremarkable.]"
    page.keyboard.press("Tab")
    assert selected(page) == "Intact."
    page.keyboard.type("Old fracture.")
    expect(page.locator("#text .default-text")).to_have_text(["Unremarkable."])
    phase(page, "saved")
    page.click("#sign")
    expect(page.locator("#checks")).to_contain_text("[Unremarkable.]")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+Home")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.type("Normal in size.")
    phase(page, "saved")
    expect(page.locator("#text .default-text")).to_have_text(["Unremarkable."])
    page.click("#sign")
    page.wait_for_selector("#unsign:visible")
    wanted = "Lungs: Unremarkable.\nHeart: Normal in size.\nBones: Old fracture."
    assert engine.content() == wanted
    expect(page.locator("#text")).to_have_text(wanted.replace("\n", ""))


def test_dialogs_restore_the_focus(engine: EngineServer, page: Page) -> None:
    """Escape returns the focus to the button, the menu or the text."""
    opened(page, engine.launch())
    page.fill("#text", "See [where].")
    phase(page, "saved")
    page.click("#sign")
    expect(page.locator("#checks")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#sign")).to_be_focused()
    page.focus("#text")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#checks")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#text")).to_be_focused()
    page.click("#more summary")
    page.click("#discard")
    expect(page.locator("#confirm")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#more summary")).to_be_focused()


def test_shortcuts_work_with_caps_lock(engine: EngineServer, page: Page) -> None:
    """Undo, redo and save accept upper-case letters."""
    opened(page, engine.launch())
    page.focus("#text")
    page.keyboard.type("one")
    text = page.locator("#text")
    page.keyboard.press("Control+Z")
    expect(text).to_have_text("")
    page.keyboard.press("Control+Y")
    expect(text).to_have_text("one")
    page.keyboard.press("Control+z")
    expect(text).to_have_text("")
    page.keyboard.press("Control+Shift+z")
    expect(text).to_have_text("one")
    page.keyboard.press("Control+S")
    expect(page.locator("#say")).to_have_text("Saved.")


def test_enter_keeps_a_selected_bracket(engine: EngineServer, page: Page) -> None:
    """Enter on a bracket that Tab has selected places the caret behind it."""
    opened(page, engine.launch(tags={"KeyFindings": "Size [size] mm."}))
    page.click("#text")
    page.keyboard.press("Control+Home")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.type("!")
    expect(page.locator("#text")).to_have_text("Size [size]! mm.")


def cells(page: Page) -> list[list[str]]:
    found: list[list[str]] = page.evaluate(
        "[...document.querySelectorAll('#text table tr')].map(row =>"
        " [...row.cells].map(cell => cell.innerText.trim()))"
    )
    return found


def change(page: Page, name: str) -> None:
    page.click("#table-menu > summary")
    page.click(f"#table-menu [data-change={name}]")


def test_a_table_is_inserted_and_changed(engine: EngineServer, page: Page, tmp_path: Path) -> None:
    """The user inserts, fills and changes a table by menu and keyboard; the page saves it."""
    opened(page, engine.launch())
    page.click("#text")
    page.click("#table-menu > summary")
    for name in ("row_below", "table_delete"):
        expect(page.locator(f"[data-change={name}]")).to_be_disabled()
    page.keyboard.press("Escape")
    page.keyboard.press("Control+End")
    page.click("#table-insert")
    for word in ("Lesion", "Size", "Site", "1", "12 mm", "RUL", "2", "8 mm", "LLL", "3"):
        page.keyboard.type(word)
        page.keyboard.press("Tab")
    filled = [["Lesion", "Size", "Site"], ["1", "12 mm", "RUL"], ["2", "8 mm", "LLL"]]
    assert cells(page) == [*filled, ["3", "", ""]]
    change(page, "row_delete")
    assert cells(page) == filled
    page.click("#text table tr:nth-child(2) > :nth-child(3)")
    change(page, "column_after")
    assert [len(row) for row in cells(page)] == [4, 4, 4]
    page.click("#table-menu > summary")
    page.screenshot(path=str(tmp_path / "table.png"))
    page.keyboard.press("Escape")
    expect(page.locator("#table-menu")).not_to_have_attribute("open", "")
    page.focus("#table-menu > summary")
    page.keyboard.press("Enter")
    expect(page.locator("[data-change=column_delete]")).to_be_enabled()
    page.focus("#table-menu [data-change=column_delete]")
    page.keyboard.press("Enter")
    expect(page.locator("#table-menu")).not_to_have_attribute("open", "")
    assert cells(page) == [[*row[:2], ""] for row in filled]
    page.keyboard.type("new")  # the caret is in the text again
    phase(page, "saved")
    saved = cells(page)
    assert saved[1] == ["1", "12 mm", "new"]
    page.reload()
    page.wait_for_selector("#sign:visible")
    assert cells(page) == saved


PASTE = """
([selector, html]) => {
  const clipboardData = new DataTransfer();
  clipboardData.setData("text/html", html);
  const event = new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true });
  document.querySelector(selector).dispatchEvent(event);
}
"""


def paste(page: Page, html: str) -> None:
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


TAGS = {
    "PatientName": "EXAMPLE^PERSON",
    "PatientBirthDate": "19800515",
    "StudyDate": "20240514",
    "Modality": "CT",
    "StudyDescription": "CT CHEST",
}


def test_the_header_names_patient_age_and_accession(engine: EngineServer, page: Page) -> None:
    """A narrow panel shows them; the age is that on the day of the study."""
    page.set_viewport_size({"width": 420, "height": 800})
    opened(page, engine.launch("ACC-77", tags=TAGS))
    expect(page.locator("#accession")).to_be_visible()
    assert page.inner_text("#accession") == "ACC-77"
    expect(page.locator("header")).to_contain_text("43y")
    expect(page.locator("#patient")).to_have_text("EXAMPLE, PERSON")


def test_the_transfer_prompt_names_the_patient_and_the_order(
    engine: EngineServer, page: Page
) -> None:
    """The prompt before a transfer of ownership names patient, accession and study."""
    opened(page, engine.launch("ACC-77", tags=TAGS))
    page.goto(engine.launch("ACC-77", email=OTHER))
    prompt = page.get_by_role("alertdialog")
    expect(prompt).to_contain_text("EXAMPLE, PERSON")
    expect(prompt).to_contain_text("ACC-77")
    expect(prompt).to_contain_text("CT CHEST")


def test_each_paragraph_has_the_direction_of_its_text(engine: EngineServer, page: Page) -> None:
    """With dir=auto, Hebrew is right-to-left beside English in the editor."""
    opened(page, engine.launch())
    typed(page, "Lungs clear.")
    page.keyboard.press("Enter")
    page.keyboard.type("הריאות תקינות.")
    directions = page.eval_on_selector_all(
        "#text > p", "all => all.map((each) => getComputedStyle(each).direction)"
    )
    assert directions == ["ltr", "rtl"]


def test_the_root_address_leads_to_the_login(engine: EngineServer, page: Page) -> None:
    page.goto(engine.url + "/")
    expect(page.locator("input[type=password]")).to_be_visible()
