"""What is asked before a report is signed, and what a key alone does not do."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.editor.writing import opened, phase, typed
from tests.browser.reading_room import ReadingRoom

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def suggested(page: Page, room: ReadingRoom) -> None:
    """Open a report whose text was put there by apply_report_ai."""
    opened(page, room.launch(tags={"KeyFindings": "Nodule of 5 mm."}))
    page.fill("#text", "FINDINGS:\nLungs clear.\nIMPRESSION:")
    phase(page, "saved")
    page.click("#apply-findings")
    expect(page.locator(".suggested").first).to_be_visible()


def test_suggestions_that_nobody_has_accepted_are_asked_about(
    room: ReadingRoom, page: Page
) -> None:
    """Sign names each of them; the highlighted button goes back; accepted text is signed."""
    suggested(page, room)
    page.click("#sign")
    expect(page.locator("#checks .finding:has-text('Suggested')")).to_have_count(1)
    assert "main" not in (page.get_attribute("#sign-anyway", "class") or "")
    assert "main" in (page.get_attribute("#checks-back", "class") or "")
    assert page.evaluate("document.activeElement.id") != "sign-anyway"
    assert room.status() == "Draft"
    page.click("#checks-back")
    page.click("#keep-all")
    page.click("#sign")
    page.wait_for_selector("#unsign:visible, #checks:visible")
    expect(page.locator("#checks .finding:has-text('Suggested')")).to_have_count(0)


def test_suggestions_can_be_signed_after_the_question(room: ReadingRoom, page: Page) -> None:
    """Sign anyway signs."""
    suggested(page, room)
    page.click("#sign")
    page.click("#sign-anyway")
    expect(page.locator("#unsign")).to_be_visible()
    assert room.status() == "Final"


def test_a_key_alone_does_not_sign_where_nothing_can_be_recalled(
    room: ReadingRoom, page: Page
) -> None:
    """Without a sign delay Ctrl+Enter asks once; a site may switch that off."""
    room.call("PATCH", "admin/sites/SITE1", {"signDelay": 0})
    tags = {"PatientName": "EXAMPLE^PERSON"}
    opened(page, room.launch(tags=tags))
    typed(page, "Normal.")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#sign-question")).to_contain_text("EXAMPLE, PERSON")
    expect(page.locator("#sign-question")).to_contain_text("A1")
    page.keyboard.press("Control+Enter")  # pressed again by mistake
    assert room.status() == "Draft"
    page.keyboard.press("Escape")
    expect(page.locator("#sign-question")).to_have_count(0)
    page.keyboard.press("Control+Enter")
    page.click("#sign-confirmed")
    expect(page.locator("#addendum-create")).to_be_visible()
    assert room.status() == "Final"
    opened(page, room.launch("A2", tags=tags))
    typed(page, "Normal.")
    page.click("#sign")  # a button is not pressed by mistake
    expect(page.locator("#addendum-create")).to_be_visible()
    room.call("PATCH", "admin/sites/SITE1", {"settings": {"confirmSigning": False}})
    opened(page, room.launch("A3", tags=tags))
    typed(page, "Normal.")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#addendum-create")).to_be_visible()
    assert room.status("A3") == "Final"
