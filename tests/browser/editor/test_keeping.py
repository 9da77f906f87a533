"""Nothing typed is lost: on reload, crash, a lost network, a lost server, another writer."""

import contextlib
import json

import pytest
from playwright.sync_api import BrowserContext, Error, Page, Playwright, Route, expect

from tests.browser.conftest import CHROMIUM
from tests.browser.editor.writing import opened, phase, typed
from tests.browser.reading_room import ReadingRoom
from tests.eventually import eventually

pytestmark = [pytest.mark.browser, pytest.mark.slow]

READ_JOURNAL = """() => new Promise((resolve) => {
  const opening = indexedDB.open("report-journal");
  opening.onsuccess = () => {
    const all = opening.result.transaction("parts").objectStore("parts").getAll();
    all.onsuccess = () => resolve(all.result.map((each) => ({
      id: each.id,
      text: new TextDecoder("latin1").decode(each.data),
    })));
  };
})"""


def test_undo_goes_back_over_saves(room: ReadingRoom, page: Page) -> None:
    """Saving is no border for undo, and what was undone is saved as well."""
    opened(page, room.launch())
    typed(page, "one")
    phase(page, "saved")
    page.wait_for_timeout(700)
    typed(page, " two")
    phase(page, "saved")
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    assert page.inner_text("#text").strip() == ""
    phase(page, "saved")
    assert room.content() == ""
    page.keyboard.press("Control+y")
    assert page.inner_text("#text") == "one"


def test_a_tab_that_dies_loses_the_last_second_at_most(
    room: ReadingRoom, profile: BrowserContext
) -> None:
    """The tab is killed before anything was saved: the next one has the text, and says so."""
    link = room.launch()
    page = profile.new_page()
    opened(page, link)
    page.route("**/session/save", lambda route: route.abort())
    typed(page, "Never saved.")
    page.wait_for_timeout(1000)
    with contextlib.suppress(Error):
        page.goto("chrome://crash")
    again = profile.new_page()
    again.goto(link)
    again.click("#take-over")  # or half a minute of patience: the dead tab cannot give it back
    expect(again.locator("#text")).to_have_text("Never saved.")
    expect(again.locator("#restored")).to_be_visible()
    phase(again, "saved")
    assert room.content() == "Never saved."


def test_a_tab_that_is_closed_saves_in_its_last_moment(
    room: ReadingRoom, profile: BrowserContext
) -> None:
    """
    Closed right behind the last letter: the text is saved and the lease is free.

    Chromium gives a closing tab half a second, which a busy machine may use up: one of several.
    """
    saved = next(
        each for each in ("A1", "A2", "A3", "A4") if is_saved_at_the_end(room, profile, each)
    )
    again = profile.new_page()
    again.goto(room.launch(saved))
    expect(again.locator("#text")).to_have_text("To the last letter.")
    expect(again.locator("#text")).to_have_attribute("contenteditable", "true")


def is_saved_at_the_end(room: ReadingRoom, profile: BrowserContext, accession: str) -> bool:
    """Type a text and close its tab; tell whether it is saved soon."""
    page = profile.new_page()
    opened(page, room.launch(accession))
    typed(page, "To the last letter.")
    page.close()
    try:
        eventually(lambda: room.content(accession) == "To the last letter.", 10)
    except AssertionError:
        return False
    return True


def test_without_storage_the_page_says_so_and_saves_while_one_types(
    room: ReadingRoom, driver: Playwright
) -> None:
    """No secure context: nothing is kept here; what is typed without a pause arrives at once."""
    rules = "--host-resolver-rules=MAP plain.test 127.0.0.1"
    browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", rules])
    page = browser.new_page()
    opened(page, room.launch().replace("127.0.0.1", "plain.test"))
    assert page.evaluate("isSecureContext") is False
    expect(page.locator("#no-journal")).to_be_visible()
    page.click("#text")
    count = 0
    while not room.content():
        page.keyboard.type("word ", delay=20)
        count += 1
        assert count < 300, "nothing came while somebody typed"
    browser.close()
    assert "word" in room.content()


def test_a_session_that_ends_takes_no_text_with_it(
    room: ReadingRoom, profile: BrowserContext
) -> None:
    """The session is over while text is unsaved: the next one finds it."""
    link = room.launch()
    page = profile.new_page()
    opened(page, link)
    page.route("**/session/save", lambda route: route.abort())
    typed(page, "Not saved yet.")
    phase(page, "offline")
    page.evaluate("""() => {
      const { session } = JSON.parse(document.getElementById("boot").textContent);
      const headers = { Authorization: `Bearer ${session}`, "Content-Type": "application/json" };
      return fetch("/reporting/api/session/end", { method: "POST", headers, body: "{}" });
    }""")
    expect(page.locator("#text")).to_have_count(0)
    page.close()
    again = profile.new_page()
    again.goto(link)
    expect(again.locator("#text")).to_have_text("Not saved yet.")


def test_an_addendum_is_kept_as_the_report_is(room: ReadingRoom, profile: BrowserContext) -> None:
    """Closed in the middle of an addendum, and crashed in the middle of it: it is there."""
    link = room.launch()
    page = profile.new_page()
    opened(page, link)
    typed(page, "Report.")
    page.click("#sign")
    page.click("#addendum-create")
    page.click("#addendum")
    page.keyboard.type("Closed here.")
    page.wait_for_timeout(1000)  # then it is kept, also where the machine is too busy to save it
    page.close()
    again = profile.new_page()
    again.goto(link)
    expect(again.locator("#addendum")).to_have_text("Closed here.")
    again.route("**/addendum/save", lambda route: route.abort())
    again.click("#addendum")
    again.keyboard.press("Control+End")
    again.keyboard.type(" Crashed here.")
    again.wait_for_timeout(1000)
    with contextlib.suppress(Error):
        again.goto("chrome://crash")
    last = profile.new_page()
    last.goto(link)
    expect(last.locator("#addendum")).to_have_text("Closed here. Crashed here.")


def test_what_is_kept_on_the_computer_cannot_be_read_there(room: ReadingRoom, page: Page) -> None:
    """The journal is sealed, and empty once everything is saved."""
    opened(page, room.launch())
    page.route("**/session/save", lambda route: route.abort())
    typed(page, "Unmistakable finding.")
    page.wait_for_timeout(1000)
    rows = page.evaluate(READ_JOURNAL)
    assert len(rows) == 1
    assert "Unmistakable" not in json.dumps(rows)
    page.unroute("**/session/save")
    phase(page, "saved")
    assert page.evaluate(READ_JOURNAL) == []


def test_a_lost_network_is_said_and_made_up_for(
    room: ReadingRoom, page: Page, profile: BrowserContext
) -> None:
    """Offline the text stays here, and goes to the engine by itself afterwards."""
    opened(page, room.launch())
    profile.set_offline(True)
    typed(page, "Written on the train.")
    phase(page, "offline")
    assert "kept on this computer" in page.inner_text("#saving")
    profile.set_offline(False)
    phase(page, "saved")
    assert room.content() == "Written on the train."


def test_a_server_that_goes_and_comes_back(room: ReadingRoom, page: Page) -> None:
    """The server is killed while somebody types: nothing is lost, before or after."""
    opened(page, room.launch())
    typed(page, "Before. ")
    room.stop()
    typed(page, "Meanwhile. ")
    phase(page, "offline")
    room.start()
    typed(page, "After.")
    phase(page, "saved")
    assert room.content() == "Before. Meanwhile. After."


def test_a_reloaded_page_goes_on_writing_at_once(room: ReadingRoom, page: Page) -> None:
    """Typed a moment before the reload: there, and the page writes."""
    opened(page, room.launch())
    typed(page, "Just now.")
    page.reload()
    expect(page.locator("#text")).to_have_text("Just now.")
    typed(page, " And on.")
    phase(page, "saved")
    assert room.content() == "Just now. And on."


def test_a_save_without_an_answer_is_reported_and_blocks_nothing(
    room: ReadingRoom, page: Page
) -> None:
    """The service hangs: the user is notified, the save is retried, and Sign works afterwards."""
    opened(page, room.launch())
    page.route("**/session/save", lambda route: None)
    typed(page, "First.")
    expect(page.locator("#saving")).to_contain_text("Not saved")
    assert "kept on this computer" in page.inner_text("#saving")
    page.click("#sign")
    expect(page.locator("#say")).to_be_visible()
    expect(page.locator("#sign")).to_be_enabled()
    page.unroute("**/session/save")
    phase(page, "saved")
    assert room.content() == "First."
    page.click("#sign")
    expect(page.locator("#unsign")).to_be_visible()


def test_a_save_whose_answer_is_lost_is_no_conflict(room: ReadingRoom, page: Page) -> None:
    """The engine has the text, the page does not know: what is typed next is saved all the same."""
    page.route("**/session/events*", lambda route: route.abort())
    opened(page, room.launch())

    def lose(route: Route) -> None:
        route.fetch()
        route.abort()

    page.route("**/session/save", lose, times=1)
    with page.expect_event("requestfailed", lambda request: request.url.endswith("/save")):
        typed(page, "First.")
    typed(page, " Second.")
    phase(page, "saved")
    assert room.content() == "First. Second."
    expect(page.locator("#conflict")).to_have_count(0)


@pytest.mark.parametrize("status", [500, 502, 504])
def test_a_server_error_does_not_end_saving(room: ReadingRoom, page: Page, status: int) -> None:
    """The engine or a proxy answers with an error once or twice: the text is saved by itself."""
    opened(page, room.launch())
    page.route(
        "**/session/save", lambda route: route.fulfill(status=status, body="<html>"), times=2
    )
    typed(page, "Typed once.")
    phase(page, "offline")
    assert "Not saved" in page.inner_text("#saving")
    phase(page, "saved")
    assert room.content() == "Typed once."


def test_text_of_an_open_window_is_not_offered_in_another(
    room: ReadingRoom, profile: BrowserContext
) -> None:
    """The first window still has its unsaved text; once it has crashed, the next one gets it."""
    link = room.launch()
    first = profile.new_page()
    opened(first, link)
    first.route("**/session/*", lambda route: route.abort())
    typed(first, "Still being typed.")
    phase(first, "offline")
    second = profile.new_page()
    second.goto(link)
    expect(second.locator("#writer")).to_be_visible()
    expect(second.locator("#kept")).to_have_count(0)
    second.click("#take-over")
    expect(second.locator("#text")).to_have_attribute("contenteditable", "true")
    typed(second, "Another text.")
    phase(second, "saved")
    assert "Still being typed." in first.inner_text("#text")
    with contextlib.suppress(Error):
        first.goto("chrome://crash")
    third = profile.new_page()
    third.goto(link)
    expect(third.locator("#kept")).to_be_visible()


def test_text_without_storage_stays_in_sight_when_the_session_ends(
    room: ReadingRoom, driver: Playwright
) -> None:
    """Nothing can be kept on this computer: the page warns, and shows the text to be copied."""
    rules = "--host-resolver-rules=MAP plain.test 127.0.0.1"
    browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", rules])
    page = browser.new_page()
    opened(page, room.launch().replace("127.0.0.1", "plain.test"))
    page.route("**/session/save", lambda route: route.abort())
    typed(page, "Nowhere else.")
    phase(page, "offline")
    expect(page.locator("#no-journal")).to_contain_text("this window only")
    page.evaluate("""() => {
      const { session } = JSON.parse(document.getElementById("boot").textContent);
      const headers = { Authorization: `Bearer ${session}`, "Content-Type": "application/json" };
      return fetch("/reporting/api/session/end", { method: "POST", headers, body: "{}" });
    }""")
    expect(page.locator("#ended")).to_contain_text("not saved")
    expect(page.locator("#text")).to_have_text("Nowhere else.")
    expect(page.locator("#text")).to_have_attribute("contenteditable", "false")
    browser.close()
