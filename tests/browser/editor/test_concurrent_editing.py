"""Two windows or users edit one report: one writes, the other may take over, no text is lost."""

import contextlib
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.editor.report_page import opened, phase, typed
from tests.browser.engine_server import OTHER, EngineServer

pytestmark = [pytest.mark.browser, pytest.mark.slow]


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
    """Launch for another user with a forced transfer of ownership."""
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
