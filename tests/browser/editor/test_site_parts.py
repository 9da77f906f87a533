"""What administrators decide about writing: macros for everybody, checks before signing."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.reading_room import ReadingRoom
from tests.browser.signing_in import admit, enrol

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_macros_and_checks_are_set_in_the_app(room: ReadingRoom, page: Page) -> None:
    """Set by the administrator, they hold at the next report."""
    enrol(room)
    admit(page, room, path="administration")
    page.get_by_role("button", name="Macros").click()
    page.fill("#site-macro-trigger", ".nf")
    page.fill("#site-macro-text", "No fracture of the [bone].")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#site-macros code")).to_have_text([".nf"])
    page.get_by_role("button", name="Checks").click()
    page.select_option("#check-openBracket", "prohibit")
    # That the macro was saved may still be told: the answer is what counts.
    with page.expect_response(lambda answer: answer.request.method == "PATCH"):
        page.get_by_role("button", name="Save").click()
    page.goto(room.launch())
    page.wait_for_selector("#sign:visible")
    page.click("#room-aids")
    expect(page.locator("#macros code")).to_have_text([".nf"])  # they come after the page
    page.click("#text")
    page.keyboard.type(".nf ")
    expect(page.locator("#text")).to_have_text("No fracture of the [bone].")
    page.click("#sign")
    expect(page.locator("#checks .prohibit")).to_have_count(1)
    expect(page.locator("#sign-anyway")).to_have_count(0)
