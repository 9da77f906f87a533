"""Every language on every screen: switched at once, nothing left untranslated, nothing broken."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from bridge.engine.launch import LANGUAGES
from tests.browser.reading_room import ReadingRoom
from tests.browser.screens import report, turn_to
from tests.browser.signing_in import admit
from tests.browser.watching import watched

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LOCALES = Path(__file__).parents[3] / "web" / "locales"
KEY = re.compile(r"\b(?:shell|editor|panels|worklist|settings|administration|sign|status)\.\w+\b")
SIZES = ((1400, 900), (420, 800))


@pytest.fixture(scope="module")
def desk(furnished: ReadingRoom, chromium: Browser) -> Iterator[Page]:
    """The page of an administrator, who stays signed in."""
    profile = chromium.new_context(viewport={"width": 1400, "height": 900})
    with watched(profile) as page:
        admit(page, furnished, path="settings")
        yield page
    profile.close()


def catalogue(code: str) -> dict[str, dict[str, str]]:
    """Return the words of a language."""
    words: dict[str, dict[str, str]] = json.loads((LOCALES / f"{code}.json").read_text("utf-8"))
    return words


def whole(page: Page) -> list[str]:
    """Return what is wrong with the layout: beyond the window, or cut off in a button."""
    wrong: list[str] = page.evaluate(
        """() => {
            const root = document.documentElement;
            const wrong = [];
            const scrolls = (each) => each.scrollWidth > each.clientWidth + 1;
            if (scrolls(root)) wrong.push('page');
            for (const each of document.querySelectorAll('main, .room, .rows')) {
                if (scrolls(each)) wrong.push(each.className || each.tagName);
            }
            for (const each of document.querySelectorAll('button, label, h1, h2, th')) {
                const box = each.getBoundingClientRect();
                const hidden = each.closest('.visually-hidden, .words');
                if (!box.width || hidden || each.classList.contains('words')) continue;
                if (each.scrollWidth > each.clientWidth + 2 && each.clientWidth > 0) {
                    if (getComputedStyle(each).overflow === 'visible' &&
                        getComputedStyle(each).display !== 'inline') {
                        wrong.push(each.textContent.trim().slice(0, 40));
                    }
                }
            }
            return wrong;
        }"""
    )
    return wrong


def test_the_app_speaks_another_language_at_once(furnished: ReadingRoom, page: Page) -> None:
    """All 17, one after the other on the same page, which is never loaded anew."""
    admit(page, furnished, path="settings")
    page.evaluate("window.stayed = true")
    chooser = page.locator("main select").first
    for code in LANGUAGES[1:] + LANGUAGES[:1]:
        chooser.select_option(code)
        words = catalogue(code)
        expect(page.locator("html")).to_have_attribute("lang", code)
        expect(page.get_by_text(words["settings"]["tokens_lead"])).to_be_visible()
        expect(page.get_by_text(words["shell"]["sign_out"]).first).to_be_visible()
        assert not KEY.search(page.locator("body").inner_text())
        assert page.evaluate("window.stayed")


def test_a_report_changes_language_and_colours_where_it_stands(
    furnished: ReadingRoom, page: Page
) -> None:
    """All 17 on the report's own page, which keeps its text; and the next report has the last."""
    report(page, furnished, "A92")
    page.locator("#text").press_sequentially("Typed. ")
    page.evaluate("window.stayed = true")
    page.locator("#more summary").click()
    page.locator("#preferences-open").click()
    page.locator("#theme").select_option("light")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    last = LANGUAGES[-1]
    with page.expect_response(
        lambda answer: last in (answer.request.post_data or ""), timeout=120_000
    ):
        for code in LANGUAGES[1:]:
            page.locator("#language").select_option(code)
            expect(page.locator("html")).to_have_attribute("lang", code)
            words = catalogue(code)
            expect(page.locator("#sign")).to_have_text(words["sign"]["sign"])
            expect(page.locator("#room-priors")).to_have_text(words["panels"]["priors"])
            assert not KEY.search(page.locator("body").inner_text())
    expect(page.locator("#text")).to_contain_text("Typed.")
    assert page.evaluate("window.stayed")
    report(page, furnished, "A93")
    expect(page.locator("html")).to_have_attribute("lang", LANGUAGES[-1])
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    page.locator("#more summary").click()
    page.locator("#preferences-open").click()
    with page.expect_response("**/session/choices"):
        page.locator("#language").select_option("en-US")
    with page.expect_response("**/session/choices"):
        page.locator("#theme").select_option("dark")


@pytest.mark.parametrize("code", LANGUAGES)
def test_no_screen_breaks_in_any_language(
    furnished: ReadingRoom, desk: Page, page: Page, code: str
) -> None:
    """Worklist, settings, administration, report: wide and in a side panel."""
    turn_to(desk, "settings")
    desk.locator("main select").first.select_option(code)
    expect(desk.locator("html")).to_have_attribute("lang", code)
    for name in ("worklist", "settings", "administration"):
        turn_to(desk, name)
        sound(desk, code, name)
    report(page, furnished, AppLanguage=code)
    expect(page.locator("#sign")).to_have_text(catalogue(code)["sign"]["sign"])
    sound(page, code, "report")


def sound(page: Page, code: str, screen: str) -> None:
    """Hold a screen against what no language may do."""
    expect(page.locator("html")).to_have_attribute("lang", code)
    assert not KEY.search(page.locator("body").inner_text())
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        assert (screen, width, whole(page)) == (screen, width, [])
    page.set_viewport_size({"width": 1400, "height": 900})


def test_dates_are_written_as_the_language_writes_them(furnished: ReadingRoom, page: Page) -> None:
    """The same worklist, in German and in Japanese."""
    admit(page, furnished, path="settings")
    shown = {}
    for code in ("en-US", "de-DE", "ja-JP"):
        turn_to(page, "settings")
        page.locator("main select").first.select_option(code)
        expect(page.locator("html")).to_have_attribute("lang", code)
        turn_to(page, "worklist")
        expect(page.locator("[role=row][data-report]").first).to_contain_text("CT Abdomen")
        shown[code] = page.locator("[role=row][data-report]").first.inner_text()
    assert "Mar 13, 2026" in shown["en-US"]
    assert "13.03.2026" in shown["de-DE"]
    assert "2026/03/13" in shown["ja-JP"]
