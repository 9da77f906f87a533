"""Macros and checks that administrators set for a site."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.engine_server import EngineServer
from tests.browser.signing_in import enrol, open_signed_in

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_macros_and_checks_are_set_in_the_app(engine: EngineServer, page: Page) -> None:
    """Macros and checks of the administrator apply to the next report."""
    enrol(engine)
    open_signed_in(page, engine, path="administration")
    page.get_by_role("button", name="Macros").click()
    page.fill("#site-macro-trigger", ".nf")
    page.fill("#site-macro-text", "No fracture of the [bone].")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#site-macros code")).to_have_text([".nf"])
    page.get_by_role("button", name="Checks").click()
    page.select_option("#check-emptyField", "prohibit")
    page.select_option("#check-openBracket", "prohibit")
    # The message about the saved macro may still be visible, so wait for the response.
    with page.expect_response(lambda answer: answer.request.method == "PATCH"):
        page.get_by_role("button", name="Save").click()
    page.goto(engine.launch())
    page.wait_for_selector("#sign:visible")
    page.click("#room-aids")
    expect(page.locator("#macros code")).to_have_text([".nf"])  # they load after the page
    page.click("#text")
    page.keyboard.type(".nf ")
    expect(page.locator("#text")).to_have_text("No fracture of the [bone].")
    page.keyboard.press("End")
    page.keyboard.type(" Compare [prior].")
    page.click("#sign")
    # A bracket of a macro is a field; a typed bracket is not.
    expect(page.locator("#checks .prohibit")).to_have_text(
        [re.compile(r"Empty field\s*\[bone\]"), re.compile(r"Open bracket\s*\[prior\]")]
    )
    expect(page.locator("#sign-anyway")).to_have_count(0)
