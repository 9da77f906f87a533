"""The report by keyboard alone: pick lists, default text, dialogs, undo, saving."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.editor.report_page import opened, phase
from tests.browser.editor.test_writing_aids import selected
from tests.browser.engine_server import EngineServer

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
