"""The console's pages in Chromium at 1280 x 720, by mouse and by keyboard."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import violations
from tests.browser.console.conftest import CHIEF, OPERATOR, VIEWER, WITHOUT_ROLE, ServiceHarness
from tests.browser.console_client import enter

pytestmark = [pytest.mark.browser, pytest.mark.slow]

TEXTS = Path(__file__).resolve().parents[3] / "web" / "src" / "console" / "en.json"
PAGES = [
    *("dashboard", "messages", "parked", "deliveries", "worklist", "find", "channels"),
    *("sites", "sites/SITE1", "access", "deeds"),
]


def missing_texts(page: Page) -> list[str]:
    """Return the text keys that a page shows because the catalogue lacks them."""
    groups = "|".join(json.loads(TEXTS.read_text("utf-8")))
    return re.findall(rf"\b(?:{groups})\.[a-z_]+\b", page.locator("body").inner_text())


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_every_page_is_accessible_and_fits(service: ServiceHarness, page: Page, theme: str) -> None:
    """Axe finds no violation on any page, and no page is wider than the window."""
    enter(page, service, CHIEF)
    for name in PAGES:
        page.goto(f"{service.house.url}/console/{name}")
        page.get_by_role("heading", level=1).wait_for()
        page.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
        if name == "dashboard":  # it polls while it is open
            expect(page.get_by_role("table", name="Listeners")).to_be_visible()
        else:
            page.wait_for_load_state("networkidle")
        assert (name, violations(page)) == (name, [])
        assert (name, missing_texts(page)) == (name, [])
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name


def test_the_dashboard_shows_connections_and_parked_messages(
    service: ServiceHarness, page: Page
) -> None:
    """The dashboard shows the state of all connections and the number of parked messages."""
    enter(page, service, VIEWER)
    listeners = page.get_by_role("table", name="Listeners")
    expect(listeners.get_by_role("row", name="orders running")).to_be_visible()
    expect(page.get_by_role("table", name="Destinations")).to_contain_text("ris")
    expect(page.get_by_role("listitem").filter(has_text="Parked")).to_contain_text("1")


def test_a_message_is_found_and_read_by_keyboard(service: ServiceHarness, page: Page) -> None:
    """The user searches an accession, opens the message, and changes its views by arrow keys."""
    service.found(OPERATOR, kind="order", number="A7001")
    enter(page, service, OPERATOR, "messages")
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
    assert violations(page) == []
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tabpanel")).to_contain_text("MSA|AA|C7001")


def test_a_viewer_sees_only_permitted_actions(service: ServiceHarness, page: Page) -> None:
    """A viewer's pages offer no content, replay, pause or audit trail."""
    enter(page, service, VIEWER, "messages")
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


def test_an_order_is_tracked_by_its_accession(service: ServiceHarness, page: Page) -> None:
    """Order tracking shows the report status, the message and the delivery of an accession."""
    enter(page, service, OPERATOR, "find")
    page.get_by_label("Accession, placer or filler number").fill("A7001")
    page.keyboard.press("Enter")
    expect(page.get_by_role("table", name="Orders")).to_contain_text("Final")
    expect(page.get_by_role("table", name="Messages")).to_contain_text("orders")
    expect(page.get_by_role("table", name="Deliveries")).to_contain_text("done")
    expect(page.get_by_role("listitem").filter(has_text="Accepted by ris")).to_be_visible()
    assert violations(page) == []
    page.get_by_role("table", name="Deliveries").get_by_role("link").click()
    page.get_by_role("button", name="Show content").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("ORU^R01")


def test_a_parked_message_is_replayed(service: ServiceHarness, page: Page) -> None:
    """The page shows the cause; a replay parks the message again while the cause remains."""
    enter(page, service, OPERATOR, "parked")
    row = page.get_by_role("table", name="Messages").get_by_role("row").nth(1)
    expect(row).to_contain_text("stray")
    expect(row).to_contain_text("site")
    row.get_by_role("button", name="Replay").click()
    expect(page.get_by_role("status")).to_contain_text("queued for replay")
    service.house.settle()
    page.reload()
    expect(page.get_by_role("table", name="Messages")).to_contain_text("stray")


def test_a_listener_is_paused_and_resumed(service: ServiceHarness, page: Page) -> None:
    """The page shows the user who paused it; the audit trail has both actions."""
    enter(page, service, OPERATOR, "channels")
    page.get_by_role("button", name="Pause stray").click()
    table = page.get_by_role("table", name="Listeners")
    expect(table).to_contain_text(f"paused by {OPERATOR}")
    page.get_by_role("button", name="Resume stray").click()
    expect(table).not_to_contain_text("paused by")
    page.context.clear_cookies()
    enter(page, service, CHIEF, "deeds")
    expect(page.get_by_role("table", name="Audit")).to_contain_text("resume")
    expect(page.get_by_role("table", name="Audit")).to_contain_text("listener stray")


def test_an_account_without_a_role_sees_a_notice(service: ServiceHarness, page: Page) -> None:
    """An account without a role sees a notice and no links."""
    enter(page, service, WITHOUT_ROLE)
    expect(page.get_by_role("alert")).to_contain_text("no role in the console")
    expect(page.get_by_role("navigation").get_by_role("link")).to_have_count(0)
