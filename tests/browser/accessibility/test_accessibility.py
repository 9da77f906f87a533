"""axe-core on every screen, in both themes and two widths; work with the keyboard alone."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import violations
from tests.browser.engine_server import EngineServer
from tests.browser.screens import SCREENS, report
from tests.browser.signing_in import PASSWORD, REA, open_signed_in, order

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SIZES = {"wide": (1400, 900), "panel": (420, 800)}


@pytest.fixture
def signed_in(sample_engine: EngineServer, page: Page) -> Page:
    open_signed_in(page, sample_engine)
    return page


def overflow(page: Page) -> int:
    wider: int = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    return wider


def theme(page: Page, name: str) -> None:
    """Set the theme without the transition of colours."""
    page.emulate_media(reduced_motion="reduce")
    page.evaluate("name => { document.documentElement.dataset.theme = name; }", name)


@pytest.mark.parametrize("screen", [item for item in SCREENS if item != "login"])
def test_axe_finds_nothing(signed_in: Page, sample_engine: EngineServer, screen: str) -> None:
    """Axe finds no violation, dark and light, wide and narrow, and nothing overflows."""
    SCREENS[screen](signed_in, sample_engine)
    for width, height in SIZES.values():
        signed_in.set_viewport_size({"width": width, "height": height})
        for name in ("dark", "light"):
            theme(signed_in, name)
            assert (width, name, violations(signed_in)) == (width, name, [])
        assert (width, overflow(signed_in)) == (width, 0)


def test_axe_finds_nothing_at_the_login(sample_engine: EngineServer, page: Page) -> None:
    """Axe finds no violation on the login page, dark and light, wide and narrow."""
    SCREENS["login"](page, sample_engine)
    for width, height in SIZES.values():
        page.set_viewport_size({"width": width, "height": height})
        for name in ("dark", "light"):
            theme(page, name)
            assert (width, name, violations(page)) == (width, name, [])
        assert (width, overflow(page)) == (width, 0)


def test_axe_finds_nothing_in_dialogs(sample_engine: EngineServer, page: Page) -> None:
    """Axe finds no violation in the dialogs and menus of a report."""
    report(
        page, sample_engine, "A95"
    )  # not used by other tests, whose windows may still hold a lease
    page.click("#microphones")
    expect(page.locator("#microphone")).to_be_visible()
    assert violations(page) == []
    page.click("#sign")
    expect(page.locator("dialog[open]")).to_be_visible()
    assert violations(page) == []
    page.keyboard.press("Escape")
    page.click("#prelim")
    expect(page.locator("dialog[open]")).to_be_visible()
    assert violations(page) == []
    page.keyboard.press("Escape")
    page.click("#more summary")
    assert violations(page) == []
    page.click("#preferences-open")
    expect(page.locator("dialog[open]")).to_be_visible()
    assert violations(page) == []


def test_from_the_login_to_a_signed_report_by_keys_alone(
    sample_engine: EngineServer, page: Page
) -> None:
    """A user signs in, searches, writes and signs a report without a mouse."""
    keys = page.keyboard
    order(sample_engine, 77, StudyDescription="MR Knee")
    page.goto(f"{sample_engine.url}/reporting/worklist")
    expect(page.locator("input[name=email]")).to_be_focused()
    keys.type(REA)
    keys.press("Tab")
    keys.type(PASSWORD)
    keys.press("Enter")
    page.locator("[role=row][data-report]").first.wait_for()
    keys.press("/")
    keys.type("Knee")
    expect(page.locator("[role=row][data-report]")).to_have_count(1)
    keys.press("Enter")
    keys.press("Enter")
    expect(page.locator("#text")).to_be_focused()
    keys.type("Meniscus intact. Effusion [none / small].")
    keys.press("Control+Home")
    keys.press("Tab")
    keys.type("none")
    keys.press("Control+Enter")
    expect(page.locator("#badge")).to_have_attribute("data-status", "Final")
    assert sample_engine.content("A77", "P77") == "Meniscus intact. Effusion none."


def test_every_control_can_be_reached_and_shows_the_focus(
    sample_engine: EngineServer, page: Page
) -> None:
    """Tab reaches the controls of the report page and always shows the focus."""
    report(page, sample_engine, "A96")
    wanted: int = page.locator("button:visible, select:visible, input:visible").count()
    page.keyboard.press("Escape")
    reached = set()
    for _ in range(wanted + 10):
        page.keyboard.press("Tab")
        place, outline = page.evaluate(
            """() => {
                const at = document.activeElement;
                const all = [...document.querySelectorAll('*')];
                const style = getComputedStyle(at);
                const shown = style.outlineStyle !== 'none' || at.id === 'text';
                return [all.indexOf(at), shown || at === document.body];
            }"""
        )
        assert outline
        reached.add(place)
        if page.evaluate("document.activeElement.id") == "text":
            page.keyboard.press("Escape")
    assert len(reached) > wanted * 0.8
