"""Two tabs of one user: the second asks, shows every word, and a reload of one tab never asks."""

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.editor.report_page import phase, typed
from tests.browser.engine_server import EngineServer
from tests.browser.signing_in import REA, enrol, open_signed_in, order

pytestmark = [pytest.mark.browser, pytest.mark.slow]

WAYS = ("worklist", "same address", "duplicated", "link")


@pytest.fixture
def report(engine: EngineServer, profile: BrowserContext) -> Page:
    """A report that a signed-in radiologist opened from the worklist."""
    enrol(engine)
    order(engine, 1)
    page = profile.new_page()
    open_signed_in(page, engine, REA)
    page.locator("[data-report]").click()
    writable(page)
    return page


def writable(page: Page) -> None:
    """Wait until the text is editable, and has no notice of another window."""
    expect(page.locator("#text")).to_have_attribute("contenteditable", "true")
    expect(page.locator("#writer")).to_have_count(0)


def second_tab(engine: EngineServer, first: Page, way: str) -> Page:
    """Open the report in a second tab of the same browser."""
    if way == "duplicated":  # as the browser does: with a copy of the tab's storage
        with first.context.expect_page() as opening:
            first.evaluate("void window.open(location.href)")
        return opening.value
    second = first.context.new_page()
    if way == "worklist":
        second.goto(f"{engine.url}/reporting/worklist")
        expect(second.locator("[role=grid]")).to_be_focused()
        second.keyboard.press("2")
        second.locator("[data-report]").click()
    elif way == "link":
        second.goto(engine.launch("A1", REA, "P1"))
    else:
        second.goto(first.url)
    return second


@pytest.mark.parametrize("way", WAYS)
def test_a_second_tab_asks(engine: EngineServer, report: Page, way: str) -> None:
    """The second tab is read-only and shows what the first writes, which keeps its lease."""
    typed(report, "One.")
    second = second_tab(engine, report, way)
    expect(second.locator("#writer")).to_contain_text("in another window")
    expect(second.locator("#text")).to_have_attribute("contenteditable", "false")
    typed(report, " Two.")
    phase(report, "saved")
    expect(second.locator("#text")).to_have_text("One. Two.")
    writable(report)
    assert engine.content() == "One. Two."


@pytest.mark.parametrize("way", WAYS)
def test_take_over_loses_no_word(engine: EngineServer, report: Page, way: str) -> None:
    """The first tab saves its last words before the second takes over, and is then read-only."""
    second = second_tab(engine, report, way)
    second.locator("#take-over").wait_for()
    refused: list[str] = []
    report.on("response", lambda found: refused.append(found.url) if found.status == 409 else None)
    typed(report, "To the last letter.")
    second.click("#take-over")
    writable(second)
    expect(second.locator("#text")).to_be_focused()
    expect(second.locator("#text")).to_have_text("To the last letter.")
    expect(report.locator("#writer")).to_contain_text("in another window")
    expect(report.locator("#text")).to_have_attribute("contenteditable", "false")
    typed(second, " And on.")
    phase(second, "saved")
    expect(report.locator("#text")).to_have_text("To the last letter. And on.")
    assert engine.content() == "To the last letter. And on."
    assert refused == []


def test_take_over_shows_words_that_the_first_tab_could_not_save(
    engine: EngineServer, report: Page
) -> None:
    """Words that only the first tab's browser has stored are in the second after the grace."""
    second = second_tab(engine, report, "same address")
    second.locator("#take-over").wait_for()
    report.route("**/session/save", lambda route: route.abort())
    typed(report, "Only here.")
    phase(report, "offline")
    second.click("#take-over")
    writable(second)
    expect(second.locator("#text")).to_have_text("Only here.")
    phase(second, "saved")
    assert engine.content() == "Only here."
    report.unroute("**/session/save")
    expect(report.locator("#text")).to_have_text("Only here.")
    expect(report.locator("#conflict")).to_have_count(0)


@pytest.mark.parametrize("others", [False, True], ids=["alone", "beside a second tab"])
def test_a_reload_does_not_ask(engine: EngineServer, report: Page, *, others: bool) -> None:
    """The reloaded tab goes on writing at once, with the words of a moment ago."""
    second = second_tab(engine, report, "same address") if others else None
    if second is not None:
        second.locator("#take-over").wait_for()
    for words in ("One.", " Two.", " Three."):
        typed(report, words)
        report.reload()
        writable(report)
    typed(report, " Four.")
    phase(report, "saved")
    expect(report.locator("#text")).to_have_text("One. Two. Three. Four.")
    assert engine.content() == "One. Two. Three. Four."
    if second is not None:
        expect(second.locator("#writer")).to_be_visible()
        second.reload()
        expect(second.locator("#take-over")).to_be_visible()
        writable(report)


def test_back_and_forward_do_not_ask(engine: EngineServer, report: Page) -> None:
    """A tab that went to the worklist and back writes again."""
    typed(report, "One.")
    phase(report, "saved")
    report.go_back()
    report.locator("[role=grid]").wait_for()
    report.go_forward()
    writable(report)
    expect(report.locator("#text")).to_have_text("One.")


def test_the_second_tab_writes_after_the_first_has_closed(
    engine: EngineServer, report: Page
) -> None:
    """Without another window nothing is asked: the second tab gets the words and may write."""
    second = second_tab(engine, report, "same address")
    second.locator("#take-over").wait_for()
    typed(report, "One.")
    report.close(run_before_unload=True)
    writable(second)
    expect(second.locator("#text")).to_have_text("One.")


def test_a_page_shown_again_from_memory_asks(engine: EngineServer, report: Page) -> None:
    """A page of the browser's back/forward cache sees that another tab writes now."""
    report.evaluate(
        "window.dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }))"
    )
    second = second_tab(engine, report, "same address")
    writable(second)
    report.evaluate(
        "window.dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))"
    )
    expect(report.locator("#writer")).to_be_visible()
    writable(second)
