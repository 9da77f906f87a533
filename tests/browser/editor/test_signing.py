"""Prompts before signing."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.editor.report_page import opened, phase, typed
from tests.browser.engine_server import EngineServer

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def suggested(page: Page, engine: EngineServer) -> None:
    """Open a report with suggestions of apply_report_ai."""
    opened(page, engine.launch(tags={"KeyFindings": "Nodule of 5 mm."}))
    page.fill("#text", "FINDINGS:\nLungs clear.\nIMPRESSION:")
    phase(page, "saved")
    page.click("#apply-findings")
    expect(page.locator(".suggested").first).to_be_visible()


def test_sign_asks_about_pending_suggestions(engine: EngineServer, page: Page) -> None:
    """Sign lists pending suggestions, and its main button goes back; accepted text is signed."""
    suggested(page, engine)
    page.click("#sign")
    expect(page.locator("#checks .finding:has-text('Suggested')")).to_have_count(1)
    assert "main" not in (page.get_attribute("#sign-anyway", "class") or "")
    assert "main" in (page.get_attribute("#checks-back", "class") or "")
    assert page.evaluate("document.activeElement.id") != "sign-anyway"
    assert engine.status() == "Draft"
    page.click("#checks-back")
    page.click("#keep-all")
    page.click("#sign")
    page.wait_for_selector("#unsign:visible, #checks:visible")
    expect(page.locator("#checks .finding:has-text('Suggested')")).to_have_count(0)


def test_pending_suggestions_can_be_signed(engine: EngineServer, page: Page) -> None:
    """`Sign anyway` signs a report with pending suggestions."""
    suggested(page, engine)
    page.click("#sign")
    page.click("#sign-anyway")
    expect(page.locator("#unsign")).to_be_visible()
    assert engine.status() == "Final"


def test_without_a_sign_delay_the_key_asks(engine: EngineServer, page: Page) -> None:
    """Without a sign delay Ctrl+Enter asks for confirmation, unless the site switches it off."""
    engine.call("PATCH", "admin/sites/SITE1", {"signDelay": 0})
    tags = {"PatientName": "EXAMPLE^PERSON"}
    opened(page, engine.launch(tags=tags))
    typed(page, "Normal.")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#sign-question")).to_contain_text("EXAMPLE, PERSON")
    expect(page.locator("#sign-question")).to_contain_text("A1")
    page.keyboard.press("Control+Enter")  # pressed again by mistake
    assert engine.status() == "Draft"
    page.keyboard.press("Escape")
    expect(page.locator("#sign-question")).to_have_count(0)
    page.keyboard.press("Control+Enter")
    page.click("#sign-confirmed")
    expect(page.locator("#addendum-create")).to_be_visible()
    assert engine.status() == "Final"
    opened(page, engine.launch("A2", tags=tags))
    typed(page, "Normal.")
    page.click("#sign")  # the button does not ask
    expect(page.locator("#addendum-create")).to_be_visible()
    engine.call("PATCH", "admin/sites/SITE1", {"settings": {"confirmSigning": False}})
    opened(page, engine.launch("A3", tags=tags))
    typed(page, "Normal.")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#addendum-create")).to_be_visible()
    assert engine.status("A3") == "Final"


@pytest.fixture
def unsigned(engine: EngineServer, page: Page) -> Page:
    """A report that was read preliminarily, signed with another text, and unsigned."""
    opened(page, engine.launch())
    typed(page, "Preliminary text.")
    phase(page, "saved")
    identity = {"SiteID": "SITE1", "PatientMRN": "P1", "Accession": "A1"}
    read = {"clinicalInfo": identity, "prelimGroup": "Residents", "prelimTag": "Night"}
    engine.call("POST", "report/prelim", read)
    expect(page.locator("#badge")).to_have_attribute("data-status", "Preliminary")
    page.fill("#text", "Text of the attending.")
    page.click("#sign")
    page.click("#unsign")
    expect(page.locator("#text")).to_have_text("Preliminary text.")
    return page


def test_after_unsign_the_signed_text_is_one_press_away(
    engine: EngineServer, unsigned: Page
) -> None:
    """The notice restores the signed text in one step, which Undo takes back."""
    unsigned.reload()
    unsigned.click("#recalled-restore")
    expect(unsigned.locator("#text")).to_have_text("Text of the attending.")
    expect(unsigned.locator("#text")).to_be_focused()
    unsigned.keyboard.press("Control+z")
    expect(unsigned.locator("#text")).to_have_text("Preliminary text.")
    unsigned.keyboard.press("Control+y")
    phase(unsigned, "saved")
    expect(unsigned.locator("#recalled")).to_have_count(0)
    assert engine.content() == "Text of the attending."
    unsigned.click("#sign")
    expect(unsigned.locator("#unsign")).to_be_visible()
    expect(unsigned.locator("#recalled")).to_have_count(0)


def test_each_version_can_be_restored(engine: EngineServer, unsigned: Page) -> None:
    """Restore beside a signing or a preliminary read makes it the text."""
    unsigned.get_by_role("tab", name="Versions").click()
    unsigned.locator("#signings .restore").click()
    expect(unsigned.locator("#text")).to_have_text("Text of the attending.")
    unsigned.locator("#prelims .restore").click()
    expect(unsigned.locator("#text")).to_have_text("Preliminary text.")
    phase(unsigned, "saved")
    unsigned.click("#sign")
    expect(unsigned.locator("#unsign")).to_be_visible()
    expect(unsigned.locator(".restore")).to_have_count(0)


def test_after_unsign_the_keys_go_to_the_text(engine: EngineServer, page: Page) -> None:
    """Words typed after Unsign are in the text."""
    opened(page, engine.launch())
    typed(page, "Signed.")
    page.click("#sign")
    page.click("#unsign")
    expect(page.locator("#text")).to_be_focused()
    page.keyboard.press("Control+End")
    page.keyboard.type(" And corrected.")
    phase(page, "saved")
    assert engine.content() == "Signed. And corrected."
