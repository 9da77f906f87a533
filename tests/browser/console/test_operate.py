"""Causes on the overview, orders by what they wait for, filters by a cell, searches in content."""

import csv
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.axe import violations
from tests.browser.console.conftest import CHIEF, OPERATOR, VIEWER, ServiceHarness
from tests.browser.console_client import enter

pytestmark = [pytest.mark.browser, pytest.mark.slow]
SIZES = [(1440, 900), (1280, 720), (390, 844)]


def rows_of(page: Page, name: str) -> Locator:
    return page.get_by_role("grid", name=name, exact=True).get_by_role("row")


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_the_overview_shows_the_causes_of_needs_attention(
    service: ServiceHarness, page: Page, theme: str
) -> None:
    """The same as the page and the badge; a cause leads to its rows, and nothing is cut."""
    enter(page, service, OPERATOR, "overview")
    page.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
    needs = page.get_by_role("region", name="What needs you")
    cause = needs.get_by_role("listitem").filter(has_text="The site of the order does not exist")
    expect(cause).to_contain_text("Add the site")
    shown = service.call(OPERATOR, "GET", "attention").json()["groups"]
    badge = page.get_by_role("link", name=re.compile(r"Needs attention, \d+"))
    expect(badge).to_have_accessible_name(re.compile(rf"Needs attention, {len(shown)} "))
    expect(needs.get_by_role("listitem")).to_have_count(len(shown))
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        if width > 640:  # a phone shows stacked rows
            table = page.get_by_role("grid", name="Connections")
            assert table.evaluate("node => node.scrollWidth <= node.clientWidth"), width
    page.set_viewport_size({"width": 1440, "height": 900})
    cause.get_by_role("link", name="Show it").click()
    expect(rows_of(page, "Messages").filter(has_text="stray")).to_be_visible()


def test_orders_are_listed_by_what_they_wait_for(service: ServiceHarness, page: Page) -> None:
    """Each says it in one sentence; a tab is an address."""
    enter(page, service, OPERATOR, "orders")
    rows = rows_of(page, "Orders")
    expect(rows.filter(has_text="A7001")).to_contain_text("ris has it")
    page.get_by_role("tab", name="Unread").click()
    expect(rows.filter(has_text="A7001")).to_have_count(0)
    unread = rows.filter(has_text="A7002")
    expect(unread).to_contain_text("reader")
    expect(unread).to_contain_text("The order is on the worklist")
    assert "list=unread" in page.url
    assert violations(page) == []
    page.get_by_role("tab", name="Waiting long").click()
    expect(page.get_by_text("Nothing matches")).to_be_visible()
    page.get_by_role("tab", name="Result not accepted").click()
    expect(page.get_by_text("Nothing matches")).to_be_visible()
    page.get_by_role("tab", name="All").click()
    expect(rows.filter(has_text="A7001")).to_be_visible()


def test_a_cell_becomes_a_filter(service: ServiceHarness, page: Page) -> None:
    """By Alt and click, and from the menu of the row; a number is in no address."""
    enter(page, service, OPERATOR, "messages")
    rows = rows_of(page, "Messages")
    stray = rows.filter(has_text="A7003")
    stray.get_by_text("stray", exact=True).click(modifiers=["Alt"])
    expect(page.get_by_role("button", name="Filter Listener : stray")).to_be_visible()
    expect(rows.filter(has_text="A7001")).to_have_count(0)
    assert "channel=stray" in page.url
    assert "peek" not in page.url
    page.get_by_role("button", name="Clear", exact=True).click()
    expect(rows.filter(has_text="A7001").first).to_be_visible()
    rows.filter(has_text="A7002").first.get_by_role("button", name="Actions for").click()
    menu = page.get_by_role("menu")
    assert violations(page) == []
    menu.get_by_role("menuitem", name="Accession: A7002").click()
    expect(rows.filter(has_text="A7001")).to_have_count(0)
    expect(rows.filter(has_text="A7002").first).to_be_visible()
    assert "A7002" not in page.url


def test_content_is_searched_in_the_background(service: ServiceHarness, page: Page) -> None:
    """From the filter bar; the list shows what was found, and the chip names the search."""
    enter(page, service, OPERATOR, "messages")
    rows = rows_of(page, "Messages")
    expect(rows.filter(has_text="A7001").first).to_be_visible()
    page.keyboard.press("f")
    page.get_by_role("combobox", name="Add a filter").fill("content")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Search in content")
    dialog.get_by_label("Tag or HL7 path").fill("Accession")
    dialog.get_by_label("Value").fill("7001")
    assert violations(page) == []
    dialog.get_by_role("button", name="Search", exact=True).click()
    expect(dialog).to_have_count(0)
    expect(rows.filter(has_text="A7001").first).to_be_visible()
    expect(rows.filter(has_text="A7002")).to_have_count(0)
    assert "job=" in page.url
    assert "7001" not in page.url


def test_a_viewer_searches_no_content(service: ServiceHarness, page: Page) -> None:
    enter(page, service, VIEWER, "messages")
    expect(rows_of(page, "Messages").nth(1)).to_be_visible()
    page.keyboard.press("f")
    page.get_by_role("combobox", name="Add a filter").fill("content")
    expect(page.get_by_role("option", name="Search in content")).to_have_count(0)


def test_audit_events_are_saved_as_a_table(service: ServiceHarness, page: Page) -> None:
    """Those that match the filters of the list."""
    enter(page, service, CHIEF, "audit?action=grant")
    expect(rows_of(page, "Audit").filter(has_text="grant").first).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="Export CSV").click()
    assert download.value.suggested_filename == "audit.csv"
    lines = Path(download.value.path()).read_text("utf-8-sig").splitlines()
    found = list(csv.DictReader(lines))
    assert {row["action"] for row in found} == {"grant"}
    assert found[0]["time"].endswith("+00:00")
