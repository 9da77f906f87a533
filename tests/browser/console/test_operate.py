"""Daily work with the console in Chromium, with traffic of every kind."""

import json
import re
import zipfile
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.acceptance.orders import order
from tests.acceptance.wire import Sender
from tests.browser.console.hospital import ANALYST, VIEWER, Hospital, opened
from tests.browser.console.presses import PRESSES, answers_held
from tests.browser.console_client import enter
from tests.eventually import eventually

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hospital]:
    with opened(tmp_path_factory.mktemp("hospital")) as hospital:
        yield hospital


@pytest.mark.parametrize("name", PRESSES)
def test_a_press_shows_before_any_answer(hospital: Hospital, page: Page, name: str) -> None:
    """Each kind of control changes the page although the server does not answer."""
    press = PRESSES[name]
    enter(page, hospital, ANALYST, press.path)
    press.ready(page)
    with answers_held(page):
        press.make(page)
        press.shows(page)


def grid_of(page: Page, name: str) -> Locator:
    return page.get_by_role("grid", name=name, exact=True)


def row_of(grid: Locator, text: str) -> Locator:
    return grid.get_by_role("row").filter(has_text=text)


def titles(place: Locator) -> list[str]:
    expect(place.get_by_role("heading", level=3).first).to_be_visible()
    return sorted(place.get_by_role("heading", level=3).all_inner_texts())


def test_the_causes_are_the_same_everywhere(hospital: Hospital, page: Page) -> None:
    """On the overview, on their page, in the badge, and in the command."""
    printed = json.loads(hospital.house.bridge("attention", "--json"))
    enter(page, hospital, ANALYST, "overview")
    on_overview = titles(page.get_by_role("region", name="What needs you"))
    badge = page.get_by_role("navigation").get_by_role("link", name="Needs attention")
    expect(badge).to_contain_text(f"{len(on_overview)} need attention")
    badge.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Needs attention")
    assert titles(page.get_by_role("main")) == on_overview
    assert len(printed["groups"]) == len(on_overview)
    expect(page.get_by_text(f"{len(on_overview)} causes")).to_be_visible()


def test_a_number_of_the_overview_leads_to_as_many_rows(hospital: Hospital, page: Page) -> None:
    """Each number of each connection, and the totals above them."""
    enter(page, hospital, ANALYST, "overview")
    expect(grid_of(page, "Connections").get_by_role("row").nth(1)).to_be_visible()
    shown = {}
    for link in page.get_by_role("main").locator("a[href*='?']").all():
        words = link.inner_text()
        number = link.evaluate("link => parseInt((link.firstElementChild ?? link).textContent)")
        if re.search("received|sent|errors of|waiting for", words):
            shown[str(link.get_attribute("href"))] = int(number)
    assert any("state=failed" in address for address in shown), shown
    for address, number in shown.items():
        page.goto(f"{hospital.house.url}{address}")
        count = page.get_by_text(re.compile(r"^[\d,]+ match$"))
        expect(count, address).to_have_text(f"{number} match")


def test_orders_are_listed_by_what_they_wait_for(hospital: Hospital, page: Page) -> None:
    """A tab for each common question, and the filter for all of them."""
    enter(page, hospital, ANALYST, "orders?list=unread")
    grid = grid_of(page, "Orders")
    expect(row_of(grid, "A8065")).to_contain_text("reader")
    expect(row_of(grid, "A8001")).to_have_count(0)
    page.get_by_role("tab", name="Result not accepted").click()
    expect(row_of(grid, "A8001")).to_contain_text("his")
    expect(row_of(grid, "A8065")).to_have_count(0)
    page.get_by_role("tab", name="Waiting long").click()
    expect(page.get_by_text("Nothing matches")).to_be_visible()
    page.get_by_role("tab", name="All").click()
    page.keyboard.press("f")
    page.get_by_role("combobox", name="Add a filter").fill("Waits for")
    page.keyboard.press("Enter")
    page.get_by_role("option", name="a receiver: the result is not accepted").click()
    page.keyboard.press("Escape")
    expect(row_of(grid, "A8001")).to_be_visible()
    expect(row_of(grid, "A8065")).to_have_count(0)
    assert "waiting=receiver" in page.url


def test_a_cell_filters_by_its_value(hospital: Hospital, page: Page) -> None:
    """Alt and a click, or the menu of the row by keyboard alone."""
    enter(page, hospital, ANALYST, "messages")
    grid = grid_of(page, "Messages")
    row_of(grid, "A8050").locator("[data-column=channel]").click(modifiers=["Alt"])
    expect(page.get_by_role("button", name="Filter Listener : stray")).to_be_visible()
    expect(row_of(grid, "A8001")).to_have_count(0)
    page.get_by_role("button", name="Clear", exact=True).click()
    expect(row_of(grid, "A8040").or_(row_of(grid, "A8033")).first).to_be_visible()
    grid.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowLeft")
    for _ in range(8):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    menu = page.get_by_role("menu")
    expect(menu).to_be_visible()
    page.keyboard.type("listener")
    expect(menu.get_by_role("menuitem", name="Listener:")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Filter Listener :")).to_be_visible()


def test_content_is_searched_in_the_background(hospital: Hospital, page: Page) -> None:
    """A tag that no index has; the list shows what was found."""
    enter(page, hospital, ANALYST, "messages")
    expect(grid_of(page, "Messages").get_by_role("row").nth(1)).to_be_visible()
    page.keyboard.press("f")
    page.get_by_role("combobox", name="Add a filter").fill("content")
    page.get_by_role("option", name="Search in content").click()
    dialog = page.get_by_role("dialog", name="Search in content")
    dialog.get_by_label("Tag or HL7 path").fill("PID-5.1")
    dialog.get_by_label("Value").fill("NOVÁKOVÁ")
    dialog.get_by_role("button", name="Search", exact=True).click()
    grid = grid_of(page, "Messages")
    expect(row_of(grid, "NOVÁKOVÁ").first).to_be_visible()
    expect(row_of(grid, "ROSSI")).to_have_count(0)
    assert "NOV" not in page.url


def test_the_audit_trail_is_saved_as_a_table(hospital: Hospital, page: Page) -> None:
    enter(page, hospital, ANALYST, "audit")
    expect(grid_of(page, "Audit").get_by_role("row").nth(1)).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="Export CSV").click()
    text = download.value.path().read_text("utf-8-sig")
    assert text.startswith("id,time,person,action,target,outcome,site,reason")
    assert ANALYST in text


def start_job(page: Page, action: str) -> None:
    """Start an action for all rows that match, and leave the page."""
    dialog = page.get_by_role("alertdialog")
    dialog.get_by_label("Reason").fill("as agreed")
    dialog.get_by_role("button", name=action).click()
    expect(page.get_by_role("status").filter(has_text="started")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("o")


def results_of_newest_job(hospital: Hospital, page: Page, kind: str) -> Locator:
    """Open the page of the newest job once it is done."""

    def is_done() -> int:
        newest = hospital.call(ANALYST, "GET", "background-jobs").json()["rows"][0]
        assert newest["kind"] == kind
        return int(newest["id"]) if newest["finished_at"] else 0

    page.goto(f"{hospital.house.url}/console/jobs/{eventually(is_done)}")
    return page.get_by_role("table", name="Results")


@pytest.mark.parametrize("which", ["Messages as they are", "De-identified messages"])
def test_messages_are_exported(hospital: Hospital, page: Page, which: str) -> None:
    """A file for each message; without patient data if that was chosen."""
    enter(page, hospital, ANALYST, "messages?absent=Modality")
    expect(row_of(grid_of(page, "Messages"), "A8031")).to_be_visible()
    page.get_by_role("button", name="Export").click()
    page.get_by_role("menuitem", name=which).click()
    start_job(page, "Export")
    results_of_newest_job(hospital, page, "export")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    with zipfile.ZipFile(download.value.path()) as file:
        found = [file.read(name) for name in file.namelist() if name.endswith(".hl7")]
    assert len(found) >= 3
    has_names = [b"ROSSI" in content for content in found]
    assert any(has_names) is which.startswith("Messages")


def test_a_view_of_ones_own_is_seen_by_nobody_else(hospital: Hospital, page: Page) -> None:
    """It restores filters, sorting and columns."""
    enter(page, hospital, ANALYST, "messages?state=parked&sort=channel")
    expect(grid_of(page, "Messages").get_by_role("row").nth(1)).to_be_visible()
    page.get_by_role("button", name="Views").click()
    page.get_by_role("button", name="Save as a new view").click()
    dialog = page.get_by_role("dialog", name="Save as a new view")
    dialog.get_by_label("Name").fill("My parked ones")
    dialog.get_by_role("button", name="Save view").click()
    expect(page.get_by_role("button", name="My parked ones")).to_be_visible()
    page.goto(f"{hospital.house.url}/console/messages")
    page.get_by_role("button", name="Views").click()
    page.get_by_role("option", name="My parked ones").click()
    expect(page.get_by_role("button", name="Filter State : parked")).to_be_visible()
    assert "sort=channel" in page.url
    enter(page, hospital, VIEWER, "messages")
    page.get_by_role("button", name="Views").click()
    expect(page.get_by_role("option", name="Lost modality")).to_be_visible()
    expect(page.get_by_role("option", name="My parked ones")).to_have_count(0)


def test_a_new_row_does_not_move_the_place(hospital: Hospital, page: Page) -> None:
    """Below the top, new rows wait behind a button, and the rows in sight stay."""
    enter(page, hospital, ANALYST, "messages")
    grid = grid_of(page, "Messages")
    expect(grid.get_by_role("row").nth(1)).to_be_visible()
    newest = grid.get_by_role("row").nth(1).inner_text()
    grid.evaluate("node => node.scrollTop = node.scrollHeight")
    expect(grid.get_by_role("row").nth(1)).not_to_have_text(newest, use_inner_text=True)
    seen = grid.evaluate("node => node.scrollTop")
    with Sender(hospital.house.mllp_port) as sender:
        sender.ask(order(8060))
    fresh = page.get_by_role("button", name="1 new")
    expect(fresh).to_be_visible()
    assert grid.evaluate("node => node.scrollTop") == seen
    fresh.click()
    expect(row_of(grid, "A8060")).to_be_visible()


def test_the_graphs_have_the_week_before(hospital: Hospital, page: Page) -> None:
    """From one hour to thirty days, with the same hours of the week before on demand."""
    enter(page, hospital, ANALYST, "connections/listener/orders")
    chart = page.get_by_role("figure", name="Messages by outcome")
    for span in ("1 h", "24 h", "7 d", "30 d"):
        page.get_by_role("button", name=span, exact=True).click()
        expect(chart.locator("canvas")).to_be_visible()
    week = page.get_by_role("switch", name="Last week behind it")
    expect(week).to_be_checked()
    week.click()
    expect(page).to_have_url(re.compile("week=0"))


def test_the_messages_of_a_sender_follow_each_other(hospital: Hospital, page: Page) -> None:
    (row,) = hospital.rows("messages", number="A8002", kind="order")
    enter(page, hospital, ANALYST, f"messages/{row['id']}")
    page.get_by_role("link", name="Next of the same sender").click()
    expect(page).to_have_url(re.compile(r"messages/\d+$"))
    expect(page).not_to_have_url(re.compile(f"messages/{row['id']}$"))
    page.get_by_role("link", name="Previous of the same sender").click()
    expect(page).to_have_url(re.compile(f"messages/{row['id']}$"))


@pytest.mark.parametrize(
    ("path", "action", "verb", "kind"),
    [
        ("deliveries?destination=his", "Retry now", "Send", "retry"),
        ("deliveries?destination=his", "Skip", "Skip", "skip"),
        ("messages?channel=stray&state=parked", "Skip", "Skip", "cancel"),
    ],
)
def test_all_rows_that_match_are_handled(
    hospital: Hospital, page: Page, path: str, action: str, verb: str, kind: str
) -> None:
    """The job goes on while the user is elsewhere, and has a result for each row."""
    enter(page, hospital, ANALYST, path)
    grid = page.get_by_role("grid").first
    expect(grid.get_by_role("row").nth(1)).to_be_visible()
    rows = grid.get_by_role("row").count() - 1
    grid.focus()
    page.keyboard.press("Control+a")
    page.get_by_role("group", name="Selection").get_by_role("button", name=action).click()
    start_job(page, verb)
    results = results_of_newest_job(hospital, page, kind)
    expect(results.get_by_role("row")).to_have_count(rows + 1)
