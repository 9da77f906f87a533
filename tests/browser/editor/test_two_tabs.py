"""Two tabs of one user: the second asks, shows every word, and a reload of one tab never asks."""

import contextlib
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.editor.report_page import opened, phase, typed
from tests.browser.engine_server import OTHER, EngineServer
from tests.browser.signing_in import REA, enrol, open_signed_in, order

pytestmark = [pytest.mark.browser, pytest.mark.slow]

WAYS = ("worklist", "same address", "duplicated", "link")


@pytest.fixture
def report(engine: EngineServer, profile: BrowserContext) -> Page:
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


def test_one_window_writes_and_another_takes_over(
    engine: EngineServer, profile: BrowserContext
) -> None:
    """The second window is read-only until it takes over; it keeps the text of the first."""
    link = engine.launch()
    first, second = profile.new_page(), profile.new_page()
    opened(first, link)
    typed(first, "First window.")
    phase(first, "saved")
    second.goto(link)
    expect(second.locator("#writer")).to_contain_text("in another window")
    assert second.get_attribute("#text", "contenteditable") == "false"
    second.click("#take-over")
    expect(second.locator("#text")).to_have_attribute("contenteditable", "true")
    expect(first.locator("#writer")).to_be_visible()
    typed(second, " Second window.")
    phase(second, "saved")
    assert engine.content() == "First window. Second window."
    expect(first.locator("#text")).to_have_text("First window. Second window.")


def forced(engine: EngineServer) -> str:
    user = {"UserEmail": OTHER, "UserName": "Otto", "forceOwnershipTransfer": True}
    return engine.launch(email=OTHER, userInfo=user)


@contextlib.contextmanager
def two_texts(
    engine: EngineServer, profile: BrowserContext, chromium: Browser
) -> Iterator[tuple[Page, Page]]:
    """A conflict: the first browser has unsaved text, and the second has saved another."""
    link = engine.launch()
    other_context = chromium.new_context()
    first, second = profile.new_page(), other_context.new_page()
    opened(first, link)
    first.route("**/session/*", lambda route: route.abort())
    typed(first, "Mine.")
    phase(first, "offline")
    second.goto(link)
    second.click("#take-over")
    expect(second.locator("#text")).to_have_attribute("contenteditable", "true")
    typed(second, "Theirs.")
    phase(second, "saved")
    first.unroute("**/session/*")
    expect(first.locator("#conflict")).to_be_visible()
    assert first.inner_text("#text") == "Mine."
    assert engine.content() == "Theirs."
    yield first, second
    other_context.close()


def test_the_user_decides_a_conflict(
    engine: EngineServer, profile: BrowserContext, chromium: Browser
) -> None:
    """The first window keeps its text, and saves it once the other window releases its lease."""
    with two_texts(engine, profile, chromium) as (first, second):
        first.click("#keep-mine")
        phase(first, "refused")
        expect(first.locator("#writer")).to_be_visible()
        assert engine.content() == "Theirs."
        second.goto("about:blank")  # releases the lease; a killed window holds it for 30 s
        phase(first, "saved")
        assert engine.content() == "Mine."


def test_take_over_saves_the_conflicting_text(
    engine: EngineServer, profile: BrowserContext, chromium: Browser
) -> None:
    """Take-over saves the text that could not be saved while the other window wrote."""
    with two_texts(engine, profile, chromium) as (first, second):
        first.click("#keep-mine")
        phase(first, "refused")
        first.click("#take-over")
        phase(first, "saved")
        assert engine.content() == "Mine."
        expect(second.locator("#text")).to_have_text("Mine.")


def test_unsaved_text_stays_visible_after_a_transfer(
    engine: EngineServer, profile: BrowserContext
) -> None:
    """After a transfer of ownership, the previous user's page still shows unsaved text."""
    first = profile.new_page()
    opened(first, engine.launch())
    first.route("**/session/save", lambda route: route.abort())
    typed(first, "Unsaved.")
    phase(first, "offline")
    second = profile.new_page()
    opened(second, forced(engine))
    first.unroute("**/session/save")
    expect(first.locator("#not-owner")).to_contain_text("Otto")
    assert first.inner_text("#text") == "Unsaved."
    phase(first, "refused")


@pytest.mark.parametrize("way", ["forced", "requested", "own"])
def test_the_last_input_is_saved_before_a_transfer(
    engine: EngineServer, profile: BrowserContext, chromium: Browser, way: str
) -> None:
    """The other window opens the draft with the input of a moment ago."""
    first = profile.new_page()
    link = engine.launch()
    opened(first, link)
    other_context = chromium.new_context()
    second = other_context.new_page()
    if way == "requested":
        second.goto(engine.launch(email=OTHER))
        second.wait_for_selector("#proceed:visible")
    if way == "own":
        second.goto(link)
        second.wait_for_selector("#take-over:visible")
    target = forced(engine)
    typed(first, "To the last letter.")
    if way == "requested":
        second.click("#proceed")
    elif way == "own":
        second.click("#take-over")
    else:
        second.goto(target)
    expect(second.locator("#text")).to_have_attribute("contenteditable", "true")
    expect(second.locator("#text")).to_have_text("To the last letter.")
    banner = "#writer" if way == "own" else "#not-owner"
    expect(first.locator(banner)).to_be_visible()
    assert first.get_attribute("#text", "contenteditable") == "false"
    typed(second, " And on.")
    phase(second, "saved")
    assert engine.content() == "To the last letter. And on."
    other_context.close()


def test_a_window_that_cannot_save_does_not_block_a_transfer(
    engine: EngineServer, profile: BrowserContext, chromium: Browser
) -> None:
    """The other user opens the draft, and the first window still shows its text."""
    first = profile.new_page()
    opened(first, engine.launch())
    first.route("**/session/save", lambda route: None)
    typed(first, "Unsaved.")
    other_context = chromium.new_context()
    second = other_context.new_page()
    second.goto(forced(engine))
    expect(second.locator("#text")).to_have_attribute("contenteditable", "true")
    expect(first.locator("#not-owner")).to_be_visible()
    assert first.inner_text("#text") == "Unsaved."
    other_context.close()
