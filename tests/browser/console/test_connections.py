"""Overview, connections, their graphs, tests and settings in Chromium, by mouse and by keyboard."""

import socket
from contextlib import suppress

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.acceptance.orders import order
from tests.acceptance.wire import Sender
from tests.browser.axe import violations
from tests.browser.console.conftest import CHIEF, OPERATOR, VIEWER, ServiceHarness
from tests.browser.console_client import enter
from tests.eventually import PATIENCE, eventually

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def connections(page: Page) -> Locator:
    return page.get_by_role("grid", name="Connections")


def row(page: Page, name: str) -> Locator:
    """The row of a connection: a destination and a listener may have the same name."""
    return connections(page).get_by_role("row").filter(has_text=name)


def choose(page: Page, name: str, action: str) -> None:
    """Choose an action in the menu of a row."""
    page.get_by_role("button", name=f"Actions for {name}", exact=True).click()
    page.get_by_role("menuitem", name=action).click()


def test_the_overview_has_a_row_for_each_connection(service: ServiceHarness, page: Page) -> None:
    """Each connection has its state, and a row leads to the page of its connection."""
    enter(page, service, VIEWER)
    for name in ("orders", "stray", "ris"):
        expect(row(page, name).first).to_contain_text("running")
    connections(page).focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("tablist", name="Parts of")).to_be_visible()
    page.go_back()
    expect(connections(page)).to_be_visible()


def test_what_needs_a_person_leads_to_its_list(service: ServiceHarness, page: Page) -> None:
    """The parked message is on the overview in words, and its action opens the list behind it."""
    enter(page, service, OPERATOR)
    needs = page.get_by_role("region", name="What needs you")
    expect(needs).to_contain_text("The site of the order does not exist")
    assert violations(page) == []
    needs.get_by_role("link", name="Show").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Messages")
    assert "state=parked" in page.url


def test_the_overview_is_live(service: ServiceHarness, page: Page) -> None:
    """An open overview shows a new message without a reload."""

    def received() -> int:
        answer = service.call(CHIEF, "GET", "overview").json()["channels"]
        (spark,) = (
            found["spark"]
            for found in answer
            if (found["kind"], found["name"]) == ("listener", "orders")
        )
        return sum(spark)

    enter(page, service, VIEWER)
    graph = row(page, "orders").get_by_role("img", name="24 hours")
    expect(graph).to_be_visible()
    before, drawn = received(), graph.get_attribute("aria-label")
    with Sender(service.house.mllp_port) as sender:
        sender.ask(order(7090))
    eventually(lambda: received() > before)
    eventually(lambda: graph.get_attribute("aria-label") != drawn)


def test_the_overview_shows_a_part_of_the_connections(service: ServiceHarness, page: Page) -> None:
    """The choice is in the address."""
    enter(page, service, VIEWER)
    page.get_by_role("button", name="Destinations").click()
    expect(row(page, "stray")).to_have_count(0)
    expect(row(page, "ris")).to_have_count(1)
    assert page.url.endswith("?show=destination")
    page.reload()
    expect(page.get_by_role("button", name="Destinations")).to_have_attribute(
        "aria-pressed", "true"
    )


def test_the_graphs_of_a_connection(service: ServiceHarness, page: Page) -> None:
    """A span is chosen, a chart is read as a table, and the last messages lead to their pages."""
    enter(page, service, VIEWER, "connections/listener/orders")
    chart = page.get_by_role("figure", name="Messages by outcome")
    expect(chart).to_be_visible()
    page.get_by_role("button", name="7 d").click()
    assert page.url.endswith("?span=7d")
    chart.get_by_role("button", name="Show as a table").click()
    expect(chart.get_by_role("columnheader", name="applied")).to_be_visible()
    assert violations(page) == []
    recent = page.get_by_role("grid", name="Last messages")
    recent.get_by_role("link", name="ORM^O01").first.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Message")


def test_the_active_mapping_and_its_last_change(service: ServiceHarness, page: Page) -> None:
    enter(page, service, CHIEF, "connections/listener/orders")
    mappings = page.get_by_role("region", name="Active mapping")
    expect(mappings.get_by_role("link", name="orders")).to_be_visible()
    mappings.get_by_role("button", name="What changed orders").click()
    dialog = page.get_by_role("dialog", name="orders: what the last activation changed")
    expect(dialog).to_contain_text("This is the first version")
    assert violations(page) == []


def test_a_viewer_changes_nothing(service: ServiceHarness, page: Page) -> None:
    """A viewer sees states and graphs, and no test, pause or settings."""
    enter(page, service, VIEWER, "connections/listener/orders")
    expect(page.get_by_role("figure", name="Queue")).to_be_visible()
    for name in ("Test", "Pause"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    expect(page.get_by_role("tab", name="Settings")).to_have_count(0)
    page.goto(f"{service.house.url}/console/connections")
    page.get_by_role("button", name="Actions for stray").click()
    expect(page.get_by_role("menuitem")).to_have_text(["Open", "Specification"])


def test_a_connection_that_does_not_exist(service: ServiceHarness, page: Page) -> None:
    enter(page, service, VIEWER, "connections/listener/nobody")
    expect(page.get_by_text("There is no connection nobody")).to_be_visible()
    page.goto(f"{service.house.url}/console/connections/elsewhere/ris")
    expect(page.get_by_role("heading", name="There is no such page")).to_be_visible()


def test_a_listener_is_paused_and_resumed(service: ServiceHarness, page: Page) -> None:
    """The pages show who paused it; the audit trail has both actions."""
    enter(page, service, OPERATOR, "channels")
    choose(page, "stray", "Pause")
    page.get_by_role("alertdialog").get_by_role("button", name="Pause stray").click()
    expect(row(page, "stray")).to_contain_text(f"by {OPERATOR}")
    row(page, "stray").get_by_role("link").click()
    expect(page.get_by_text(f"paused by {OPERATOR}")).to_be_visible()
    assert violations(page) == []
    page.locator("main header").get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    enter(page, service, CHIEF, "deeds")
    expect(page.get_by_role("grid", name="Audit")).to_contain_text("resume")
    expect(page.get_by_role("grid", name="Audit")).to_contain_text("listener stray")


def test_a_destination_is_tested(service: ServiceHarness, page: Page) -> None:
    """The test connects, shows its steps, and sends no message."""
    before = len(service.ris.received)
    enter(page, service, OPERATOR, "connections/destination/ris")
    page.get_by_role("button", name="Test", exact=True).click()
    dialog = page.get_by_role("dialog", name="Test of ris")
    expect(dialog.get_by_text("Stays open")).to_be_visible()
    expect(dialog.get_by_text("ris is reachable")).to_be_visible()
    assert violations(page) == []
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Test", exact=True)).to_be_focused()
    assert len(service.ris.received) == before


def test_a_listener_with_mutual_tls_is_tested(service: ServiceHarness, page: Page) -> None:
    """Its steps are shown, and it wants a client certificate."""
    enter(page, service, OPERATOR, "connections")
    choose(page, "mutual", "Test")
    dialog = page.get_by_role("dialog", name="Test of mutual")
    expect(dialog).to_contain_text("it requires a client certificate")
    expect(dialog.get_by_text("mutual is reachable")).to_be_visible()


def test_failed_handshakes_are_shown(service: ServiceHarness, page: Page) -> None:
    """A sender without TLS is shown with its address and the reason."""
    with (
        suppress(OSError),
        socket.create_connection(("127.0.0.1", service.mutual_port), timeout=PATIENCE) as wire,
    ):
        wire.sendall(b"\x0bMSH|\x1c\r")
        wire.recv(100)

    def is_stored() -> bool:
        found = service.call(OPERATOR, "GET", "channels/listener/mutual").json()
        return any("plain text" in failure["reason"] for failure in found["handshakes"])

    eventually(is_stored)
    enter(page, service, OPERATOR, "connections/listener/mutual")
    failures = page.get_by_role("region", name="Failed TLS handshakes")
    expect(failures).to_contain_text("the peer does not speak TLS")
    expect(failures).to_contain_text("127.0.0.1")


def test_a_setting_is_changed_and_rolled_back(service: ServiceHarness, page: Page) -> None:
    """The form shows mistakes and changes, survives another page, and saves with a reason."""
    enter(page, service, CHIEF, "connections/destination/ris/settings")
    limit = page.get_by_role("textbox", name="Acknowledgment timeout")
    limit.fill("soon")
    expect(limit).to_have_attribute("aria-invalid", "true")
    limit.fill("12s")
    page.get_by_role("link", name="Messages").click()
    page.go_back()
    expect(limit).to_have_value("12s")
    changes = page.get_by_role("region", name="Changes")
    expect(changes).to_contain_text("Acknowledgment timeout")
    page.get_by_label("Reason for the audit trail").fill("a slow receiver")
    assert violations(page) == []
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="ris is active")).to_be_visible()
    expect(changes).to_contain_text("Nothing is changed.")
    limit.fill("13s")
    page.get_by_label("Reason for the audit trail").fill("still slow")
    page.keyboard.press("Enter")
    expect(changes).to_contain_text("Nothing is changed.")
    page.get_by_role("tab", name="History").click()
    history = page.get_by_role("table", name="Settings history")
    expect(history).to_contain_text("still slow")
    page.get_by_role("button", name="Roll back one version").click()
    question = page.get_by_role("alertdialog", name="Roll back ris?")
    question.get_by_label("Reason").fill("it is fast again")
    question.get_by_role("button", name="Roll back one version").click()
    expect(history).to_contain_text("it is fast again")
    page.get_by_role("tab", name="Settings").click()
    expect(limit).to_have_value("12s")
