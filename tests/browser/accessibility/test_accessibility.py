"""axe-core over every screen, in both themes, wide and in a side panel; keys instead of a mouse."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import complaints
from tests.browser.reading_room import ReadingRoom
from tests.browser.screens import SCREENS, report
from tests.browser.signing_in import PASSWORD, REA, admit, order

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SIZES = {"wide": (1400, 900), "panel": (420, 800)}


@pytest.fixture
def signed_in(furnished: ReadingRoom, page: Page) -> Page:
    """A page of an administrator."""
    admit(page, furnished)
    return page


def overflow(page: Page) -> int:
    """Return by how many pixels the page is wider than its window."""
    wider: int = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    return wider


def theme(page: Page, name: str) -> None:
    """Show the page in another theme, without the time that colours take to change."""
    page.emulate_media(reduced_motion="reduce")
    page.evaluate("name => { document.documentElement.dataset.theme = name; }", name)


@pytest.mark.parametrize("screen", [each for each in SCREENS if each != "login"])
def test_axe_finds_nothing(signed_in: Page, furnished: ReadingRoom, screen: str) -> None:
    """Dark and light, wide and narrow; and nothing reaches beyond the window."""
    SCREENS[screen](signed_in, furnished)
    for width, height in SIZES.values():
        signed_in.set_viewport_size({"width": width, "height": height})
        for name in ("dark", "light"):
            theme(signed_in, name)
            assert (width, name, complaints(signed_in)) == (width, name, [])
        assert (width, overflow(signed_in)) == (width, 0)


def test_axe_finds_nothing_at_the_login(furnished: ReadingRoom, page: Page) -> None:
    """Dark and light, wide and narrow."""
    SCREENS["login"](page, furnished)
    for width, height in SIZES.values():
        page.set_viewport_size({"width": width, "height": height})
        for name in ("dark", "light"):
            theme(page, name)
            assert (width, name, complaints(page)) == (width, name, [])
        assert (width, overflow(page)) == (width, 0)


def test_axe_finds_nothing_in_dialogs(furnished: ReadingRoom, page: Page) -> None:
    """The checks before signing, the preliminary read, a take menu that is open, microphones."""
    report(page, furnished, "A95")  # nobody else's: a window that is killed writes for a while yet
    page.click("#microphones")
    expect(page.locator("#microphone")).to_be_visible()
    assert complaints(page) == []
    page.click("#sign")
    expect(page.locator("dialog[open]")).to_be_visible()
    assert complaints(page) == []
    page.keyboard.press("Escape")
    page.click("#prelim")
    expect(page.locator("dialog[open]")).to_be_visible()
    assert complaints(page) == []
    page.keyboard.press("Escape")
    page.click("#more summary")
    assert complaints(page) == []
    page.click("#preferences-open")
    expect(page.locator("dialog[open]")).to_be_visible()
    assert complaints(page) == []


def test_from_the_login_to_a_signed_report_by_keys_alone(
    furnished: ReadingRoom, page: Page
) -> None:
    """Login, worklist, search, the report's text and bracket, Ctrl+Enter: no mouse anywhere."""
    keys = page.keyboard
    order(furnished, 77, StudyDescription="MR Knee")
    page.goto(f"{furnished.url}/reporting/worklist")
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
    assert furnished.content("A77", "P77") == "Meniscus intact. Effusion none."


def test_every_control_can_be_reached_and_shows_the_focus(
    furnished: ReadingRoom, page: Page
) -> None:
    """Tab goes through the report page, out of the text by Escape, and always shows where it is."""
    report(page, furnished, "A96")
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
