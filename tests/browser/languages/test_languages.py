"""Every language on every screen: no reload, no missing text, no broken layout."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from bridge.engine.launch import LANGUAGES
from tests.browser.checked_pages import checked_page
from tests.browser.engine_server import EngineServer
from tests.browser.screens import navigate, report
from tests.browser.signing_in import open_signed_in

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LOCALES = Path(__file__).parents[3] / "web" / "locales"
KEY = re.compile(r"\b(?:shell|editor|panels|worklist|settings|administration|sign|status)\.\w+\b")
SIZES = ((1400, 900), (1000, 800), (420, 800))


@pytest.fixture(scope="module")
def signed_in(sample_engine: EngineServer, chromium: Browser) -> Iterator[Page]:
    profile = chromium.new_context(viewport={"width": 1400, "height": 900})
    with checked_page(profile) as page:
        open_signed_in(page, sample_engine, path="settings")
        yield page
    profile.close()


def catalogue(code: str) -> dict[str, dict[str, str]]:
    texts: dict[str, dict[str, str]] = json.loads((LOCALES / f"{code}.json").read_text("utf-8"))
    return texts


def layout_errors(page: Page) -> list[str]:
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


def test_the_app_changes_its_language_without_a_reload(
    sample_engine: EngineServer, page: Page
) -> None:
    """The settings page shows all 17 languages in turn without a page load."""
    open_signed_in(page, sample_engine, path="settings")
    page.evaluate("window.stayed = true")
    chooser = page.locator("main select").first
    for code in LANGUAGES[1:] + LANGUAGES[:1]:
        chooser.select_option(code)
        texts = catalogue(code)
        expect(page.locator("html")).to_have_attribute("lang", code)
        expect(page.get_by_text(texts["settings"]["tokens_lead"])).to_be_visible()
        expect(page.get_by_text(texts["shell"]["sign_out"]).first).to_be_visible()
        assert not KEY.search(page.locator("body").inner_text())
        assert page.evaluate("window.stayed")


def test_a_report_changes_language_and_theme_without_a_reload(
    sample_engine: EngineServer, page: Page
) -> None:
    """The report page keeps its text in all 17 languages; the next report has the last language."""
    report(page, sample_engine, "A92")
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
            texts = catalogue(code)
            expect(page.locator("#sign")).to_have_text(texts["sign"]["sign"])
            expect(page.locator("#room-priors")).to_have_text(texts["panels"]["priors"])
            assert not KEY.search(page.locator("body").inner_text())
    expect(page.locator("#text")).to_contain_text("Typed.")
    assert page.evaluate("window.stayed")
    report(page, sample_engine, "A93")
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
    sample_engine: EngineServer, signed_in: Page, page: Page, code: str
) -> None:
    """Worklist, settings, administration, report: three widths, the last of a side panel."""
    navigate(signed_in, "settings")
    signed_in.locator("main select").first.select_option(code)
    expect(signed_in.locator("html")).to_have_attribute("lang", code)
    for name in ("worklist", "settings", "administration"):
        navigate(signed_in, name)
        check_screen(signed_in, code, name)
    report(page, sample_engine, AppLanguage=code)
    expect(page.locator("#sign")).to_have_text(catalogue(code)["sign"]["sign"])
    check_screen(page, code, "report")


def check_screen(page: Page, code: str, screen: str) -> None:
    expect(page.locator("html")).to_have_attribute("lang", code)
    assert not KEY.search(page.locator("body").inner_text())
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        # The worklist chooses its columns by its new width when the next frame is rendered.
        page.evaluate(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )
        assert (screen, width, layout_errors(page)) == (screen, width, [])
    page.set_viewport_size({"width": 1400, "height": 900})


def test_dates_are_written_as_the_language_writes_them(
    sample_engine: EngineServer, page: Page
) -> None:
    """The worklist writes dates in the format of English, German and Japanese."""
    open_signed_in(page, sample_engine, path="settings")
    rows = {}
    for code in ("en-US", "de-DE", "ja-JP"):
        navigate(page, "settings")
        page.locator("main select").first.select_option(code)
        expect(page.locator("html")).to_have_attribute("lang", code)
        navigate(page, "worklist")
        expect(page.locator("[role=row][data-report]").first).to_contain_text("CT Abdomen")
        rows[code] = page.locator("[role=row][data-report]").first.inner_text()
    assert "Mar 13, 2026" in rows["en-US"]
    assert "13.03.2026" in rows["de-DE"]
    assert "2026/03/13" in rows["ja-JP"]
