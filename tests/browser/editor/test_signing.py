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
