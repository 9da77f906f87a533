"""Two who would write one report: one does, the other takes over, and no text is lost by it."""

import contextlib
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.editor.writing import opened, phase, typed
from tests.browser.reading_room import OTHER, ReadingRoom

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_one_window_writes_and_another_takes_over(
    room: ReadingRoom, profile: BrowserContext
) -> None:
    """V100: the second window reads until it takes over; the first one's text is not lost."""
    link = room.launch()
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
    assert room.content() == "First window. Second window."
    expect(first.locator("#text")).to_have_text("First window. Second window.")


@contextlib.contextmanager
def two_texts(
    room: ReadingRoom, profile: BrowserContext, chromium: Browser
) -> Iterator[tuple[Page, Page]]:
    """Typed on two computers: the slower one, and the other, that is kept and still writes."""
    link = room.launch()
    elsewhere = chromium.new_context()
    first, second = profile.new_page(), elsewhere.new_page()
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
    assert room.content() == "Theirs."
    yield first, second
    elsewhere.close()


def test_two_texts_are_never_made_one_unasked(
    room: ReadingRoom, profile: BrowserContext, chromium: Browser
) -> None:
    """The slower one keeps its text and decides; it is saved as soon as the other has left."""
    with two_texts(room, profile, chromium) as (first, second):
        first.click("#keep-mine")
        phase(first, "refused")
        expect(first.locator("#writer")).to_be_visible()
        assert room.content() == "Theirs."
        second.goto("about:blank")  # gives its lease back; one that was killed has it 30 s more
        phase(first, "saved")
        assert room.content() == "Mine."


def test_a_text_that_waits_is_saved_when_the_writing_is_taken_over(
    room: ReadingRoom, profile: BrowserContext, chromium: Browser
) -> None:
    """Nothing has to be saved before it, for nothing can be while the other one writes."""
    with two_texts(room, profile, chromium) as (first, second):
        first.click("#keep-mine")
        phase(first, "refused")
        first.click("#take-over")
        phase(first, "saved")
        assert room.content() == "Mine."
        expect(second.locator("#text")).to_have_text("Mine.")


def test_text_of_a_draft_that_was_taken_over_stays_readable(
    room: ReadingRoom, profile: BrowserContext
) -> None:
    """Ownership transfer: what was not saved stays in the previous editor's page."""
    first = profile.new_page()
    opened(first, room.launch())
    first.route("**/session/save", lambda route: route.abort())
    typed(first, "Unsaved.")
    phase(first, "offline")
    second = profile.new_page()
    opened(
        second,
        room.launch(
            who=OTHER,
            userInfo={
                "UserEmail": OTHER,
                "UserName": "Otto",
                "forceOwnershipTransfer": True,
            },
        ),
    )
    first.unroute("**/session/save")
    expect(first.locator("#not-owner")).to_contain_text("Otto")
    assert first.inner_text("#text") == "Unsaved."
    phase(first, "refused")


def forced(room: ReadingRoom) -> str:
    """Launch for another user, who takes the draft without being asked."""
    user = {"UserEmail": OTHER, "UserName": "Otto", "forceOwnershipTransfer": True}
    return room.launch(who=OTHER, userInfo=user)


@pytest.mark.parametrize("way", ["forced", "asked", "own"])
def test_what_was_typed_last_is_saved_before_another_takes_over(
    room: ReadingRoom, profile: BrowserContext, chromium: Browser, way: str
) -> None:
    """V8: text that was typed a moment ago and not saved yet is in what the other one opens."""
    first = profile.new_page()
    link = room.launch()
    opened(first, link)
    elsewhere = chromium.new_context()
    second = elsewhere.new_page()
    if way == "asked":
        second.goto(room.launch(who=OTHER))
        second.wait_for_selector("#proceed:visible")
    if way == "own":
        second.goto(link)
        second.wait_for_selector("#take-over:visible")
    target = forced(room)
    typed(first, "To the last letter.")
    if way == "asked":
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
    assert room.content() == "To the last letter. And on."
    elsewhere.close()


def test_a_window_that_cannot_save_holds_nobody_up(
    room: ReadingRoom, profile: BrowserContext, chromium: Browser
) -> None:
    """Its saves have no answer: the other one opens the draft, and the text stays where it is."""
    first = profile.new_page()
    opened(first, room.launch())
    first.route("**/session/save", lambda route: None)
    typed(first, "Unsaved.")
    elsewhere = chromium.new_context()
    second = elsewhere.new_page()
    second.goto(forced(room))
    expect(second.locator("#text")).to_have_attribute("contenteditable", "true")
    expect(first.locator("#not-owner")).to_be_visible()
    assert first.inner_text("#text") == "Unsaved."
    elsewhere.close()
