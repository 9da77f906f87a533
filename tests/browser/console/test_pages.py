"""The console's pages in Chromium at 1280 x 720, by mouse and by keyboard, and their endpoints."""

import json
import re
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import violations
from tests.browser.console.conftest import CHIEF, OPERATOR, VIEWER, WITHOUT_ROLE, ServiceHarness
from tests.browser.console_client import enter
from tests.eventually import PATIENCE

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
    enter(page, service, WITHOUT_ROLE)
    expect(page.get_by_role("alert")).to_contain_text("no role in the console")
    expect(page.get_by_role("navigation").get_by_role("link")).to_have_count(0)


def test_sign_in_is_required(service: ServiceHarness) -> None:
    """The page redirects to the login; endpoints answer 401."""
    page = httpx.get(f"{service.house.url}/console", timeout=PATIENCE)
    assert (page.status_code, page.headers["location"]) == (303, "/reporting/login?next=/console")
    assert httpx.get(f"{service.house.url}/console/api/me", timeout=PATIENCE).status_code == 401


def test_the_timeline_of_a_message(service: ServiceHarness) -> None:
    """The timeline goes from the received frame to the receiver's acknowledgment."""
    row = service.found(OPERATOR, kind="order", number="A7001")[0]
    steps = service.call(OPERATOR, "GET", f"messages/{row['id']}").json()["timeline"]
    kinds = ["received", "acknowledged", "done", "report", "composed", "sent", "accepted"]
    assert [each["kind"] for each in steps] == kinds


def test_the_content_of_a_message(service: ServiceHarness) -> None:
    """A user who may read bodies gets the raw message, its tree, events and acknowledgment."""
    row = service.found(OPERATOR, kind="order", number="A7001")[0]
    content = service.call(OPERATOR, "GET", f"messages/{row['id']}/content").json()
    assert content["raw"].startswith("MSH|")
    assert "MSA|AA|C7001" in content["ack"]
    pid = next(each for each in content["tree"] if each["name"] == "PID")
    places = {part["place"]: part["text"] for each in pid["fields"] for part in each["parts"]}
    assert places["PID-3.1"] == "M7001"
    assert "A7001" in str(content["mapped"]["events"])


def test_the_audit_trail_contains_no_numbers(service: ServiceHarness) -> None:
    """The audit trail has reads, searches and refused requests with their user, and no number."""
    row = service.found(OPERATOR, kind="patient", number="M7001")[0]
    service.call(OPERATOR, "GET", f"messages/{row['id']}/content")
    service.call(VIEWER, "GET", f"messages/{row['id']}/content")
    answer = service.call(CHIEF, "GET", "deeds")
    events = {(e["email"], e["action"], e["subject"], e["outcome"]) for e in answer.json()["rows"]}
    assert (OPERATOR, "search", "messages by patient number", "done") in events
    assert (OPERATOR, "read", f"message {row['id']}", "done") in events
    assert (VIEWER, "read", f"message {row['id']}", "not_permitted") in events
    assert "M7001" not in answer.text
    assert service.call(OPERATOR, "GET", "deeds").status_code == 403


def test_error_statuses(service: ServiceHarness) -> None:
    """404 for unknown rows, channels and endpoints, 409 for a wrong state, 400 for a bad body."""
    row = service.found(OPERATOR, kind="order", number="A7001")[0]
    assert service.call(OPERATOR, "GET", "messages/999999").status_code == 404
    assert service.call(OPERATOR, "GET", "nothing").status_code == 404
    assert service.call(OPERATOR, "POST", "channels/listener/none/pause", {}).status_code == 404
    assert service.call(OPERATOR, "POST", f"messages/{row['id']}/cancel", {}).status_code == 409
    bad = service.call(OPERATOR, "POST", "messages/search", {"patient": "M7001"})
    assert (bad.status_code, "M7001" in bad.text) == (400, False)
