"""The console's pages in Chromium at 1280 x 720: what they show, by mouse and by keyboard."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.axe import complaints
from tests.browser.console.conftest import CHIEF, OPERATOR, STRANGER, VIEWER, ServiceHarness
from tests.browser.watching import window

pytestmark = [pytest.mark.browser, pytest.mark.slow]

TEXTS = Path(__file__).resolve().parents[3] / "web" / "src" / "console" / "en.json"
PAGES = [
    *("dashboard", "messages", "parked", "deliveries", "worklist", "find", "channels"),
    *("sites", "sites/SITE1", "access", "deeds"),
]


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A page in a fresh profile; errors in its scripts fail the test."""
    with window(chromium) as page:
        yield page


def enter(page: Page, ward: ServiceHarness, email: str, path: str = "") -> None:
    """Sign in, then go to a page."""
    jar = ward.cookies(email)
    page.context.clear_cookies()
    page.context.add_cookies(
        [{"name": name, "value": jar[name], "url": ward.house.url} for name in jar]
    )
    page.goto(f"{ward.house.url}/console/{path}".rstrip("/"))


def missing_texts(page: Page) -> list[str]:
    """Return the keys that a page shows because the catalogue has no text for them."""
    groups = "|".join(json.loads(TEXTS.read_text("utf-8")))
    return re.findall(rf"\b(?:{groups})\.[a-z_]+\b", page.locator("body").inner_text())


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_every_page_is_accessible_and_fits(ward: ServiceHarness, page: Page, theme: str) -> None:
    """Axe has no complaint of any page, and nothing is wider than the window."""
    enter(page, ward, CHIEF)
    for name in PAGES:
        page.goto(f"{ward.house.url}/console/{name}")
        page.get_by_role("heading", level=1).wait_for()
        page.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
        if name == "dashboard":  # it asks for news for as long as it is open
            expect(page.get_by_role("table", name="Listeners")).to_be_visible()
        else:
            page.wait_for_load_state("networkidle")
        assert (name, complaints(page)) == (name, [])
        assert (name, missing_texts(page)) == (name, [])
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name


def test_the_dashboard_shows_what_runs_and_what_is_parked(ward: ServiceHarness, page: Page) -> None:
    """Listeners and destinations with their state, and how many wait for a person."""
    enter(page, ward, VIEWER)
    listeners = page.get_by_role("table", name="Listeners")
    expect(listeners.get_by_role("row", name="orders running")).to_be_visible()
    expect(page.get_by_role("table", name="Destinations")).to_contain_text("ris")
    expect(page.get_by_role("listitem").filter(has_text="Parked")).to_contain_text("1")


def test_a_message_is_found_and_read_by_keyboard(ward: ServiceHarness, page: Page) -> None:
    """Type an accession, Enter; open the message; go through its views by arrow keys."""
    ward.found(OPERATOR, kind="order", number="A7001")
    enter(page, ward, OPERATOR, "messages")
    page.get_by_label("Number", exact=True).fill("A7001")
    page.keyboard.press("Enter")
    rows = page.get_by_role("table", name="Messages found").get_by_role("row")
    expect(rows).to_have_count(2)
    assert "A7001" not in page.url
    rows.nth(1).get_by_role("link").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("Accepted by ris")).to_be_visible()
    page.get_by_role("button", name="Show content").focus()
    page.keyboard.press("Enter")
    raw = page.get_by_role("tab", name="Raw")
    raw.focus()
    expect(page.get_by_role("tabpanel")).to_contain_text("MSH|")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tabpanel")).to_contain_text("PID-3.1")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tabpanel")).to_contain_text('"accession": "A7001"')
    assert complaints(page) == []
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tabpanel")).to_contain_text("MSA|AA|C7001")


def test_a_viewer_is_offered_nothing_that_is_refused(ward: ServiceHarness, page: Page) -> None:
    """No search by number, no content, no replay, no pause, no audit."""
    enter(page, ward, VIEWER, "messages")
    page.get_by_role("table", name="Messages found").get_by_role("link").first.click()
    expect(page.get_by_text("You do not have permission to read message content")).to_be_visible()
    expect(page.get_by_role("button", name="Replay")).to_have_count(0)
    expect(page.get_by_role("link", name="Audit")).to_have_count(0)
    for name in ("Order tracking", "Worklist", "Sites", "Access", "Mappings"):
        expect(page.get_by_role("link", name=name)).to_have_count(0)
    expect(page.get_by_role("button", name="Edit and resend")).to_have_count(0)
    page.get_by_role("link", name="Connections").click()
    expect(page.get_by_role("table", name="Listeners")).to_contain_text("orders")
    expect(page.get_by_role("button", name="Pause")).to_have_count(0)


def test_an_order_is_tracked_by_its_accession(ward: ServiceHarness, page: Page) -> None:
    """An accession leads to the status of its report, its message and its delivery."""
    enter(page, ward, OPERATOR, "find")
    page.get_by_label("Accession, placer or filler number").fill("A7001")
    page.keyboard.press("Enter")
    expect(page.get_by_role("table", name="Orders")).to_contain_text("Final")
    expect(page.get_by_role("table", name="Messages")).to_contain_text("orders")
    expect(page.get_by_role("table", name="Deliveries")).to_contain_text("done")
    expect(page.get_by_role("listitem").filter(has_text="Accepted by ris")).to_be_visible()
    assert complaints(page) == []
    page.get_by_role("table", name="Deliveries").get_by_role("link").click()
    page.get_by_role("button", name="Show content").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("ORU^R01")


def test_what_is_parked_is_replayed_with_its_cause_shown(ward: ServiceHarness, page: Page) -> None:
    """Replayed, it is applied again; its cause stands, so it is parked again."""
    enter(page, ward, OPERATOR, "parked")
    row = page.get_by_role("table", name="Messages").get_by_role("row").nth(1)
    expect(row).to_contain_text("stray")
    expect(row).to_contain_text("site")
    row.get_by_role("button", name="Replay").click()
    expect(page.get_by_role("status")).to_contain_text("queued for replay")
    ward.house.settle()
    page.reload()
    expect(page.get_by_role("table", name="Messages")).to_contain_text("stray")


def test_a_listener_is_paused_and_resumed(ward: ServiceHarness, page: Page) -> None:
    """Who paused it is shown; the record names both deeds."""
    enter(page, ward, OPERATOR, "channels")
    page.get_by_role("button", name="Pause stray").click()
    table = page.get_by_role("table", name="Listeners")
    expect(table).to_contain_text(f"paused by {OPERATOR}")
    page.get_by_role("button", name="Resume stray").click()
    expect(table).not_to_contain_text("paused by")
    page.context.clear_cookies()
    enter(page, ward, CHIEF, "deeds")
    expect(page.get_by_role("table", name="Audit")).to_contain_text("resume")
    expect(page.get_by_role("table", name="Audit")).to_contain_text("listener stray")


def test_an_account_without_a_role_sees_a_notice(ward: ServiceHarness, page: Page) -> None:
    """And sees no page; once signed out, the console leads to the login."""
    enter(page, ward, STRANGER)
    expect(page.get_by_role("alert")).to_contain_text("no role in the console")
    expect(page.get_by_role("navigation").get_by_role("link")).to_have_count(0)
