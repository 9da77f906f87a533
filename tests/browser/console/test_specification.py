"""The partner specification in Chromium: from the palette, as a file, compared with a version."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import violations
from tests.browser.console.conftest import CHIEF, OPERATOR, VIEWER, ServiceHarness
from tests.browser.console.hands import Mouse
from tests.browser.console_client import enter

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PAGE = "connections/destination/ris/specification"


def palette(page: Page, text: str) -> None:
    """Press Ctrl-K and type; wait until the names of connections are known."""
    page.keyboard.press("Control+k")
    expect(page.get_by_role("option", name="Specification of ris").first).to_be_attached()
    page.keyboard.type(text)


def test_a_specification_is_found_and_saved(service: ServiceHarness, page: Page) -> None:
    """Ctrl-K, "spec ris", Enter, and one click: the partner's PDF. The export is audited."""
    enter(page, service, VIEWER)
    expect(page.get_by_role("grid", name="Connections")).to_be_visible()
    palette(page, "spec ris")
    page.keyboard.press("Enter")
    expect(page.get_by_role("tab", name="Specification")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("heading", name=re.compile(r"\d Transport"))).to_be_visible()
    expect(page.get_by_role("table").first).to_contain_text("MLLP")
    hands = Mouse(page)
    with page.expect_download() as download:
        hands.click(page.get_by_role("button", name="PDF"))
    assert hands.clicks == 1
    assert download.value.suggested_filename == "destination-ris.pdf"
    assert download.value.path().read_bytes().startswith(b"%PDF-")
    body = {"filters": {"target": "specification destination ris"}}
    events = service.call(CHIEF, "POST", "lists/audit", body).json()["rows"]
    assert {(event["email"], event["action"]) for event in events} == {(VIEWER, "export")}


def test_the_palette_saves_the_file(service: ServiceHarness, page: Page) -> None:
    """The PDF needs no page: the palette has it as an entry of its own."""
    enter(page, service, OPERATOR)
    expect(page.get_by_role("grid", name="Connections")).to_be_visible()
    palette(page, "spec ris pdf")
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    assert download.value.suggested_filename == "destination-ris.pdf"


def change_orders(service: ServiceHarness) -> str:
    """Let `orders` read another field of ZDS; return the version before."""
    known = service.call(CHIEF, "GET", "mappings/orders").json()
    text = known["sources"]["orders.yaml"]
    changed = text.replace("{from: ZDS-1.1,", "{from: ZDS-2.1,")
    assert changed != text
    begun_on = known["in_force"]["version"]
    body = {"files": {"orders.yaml": changed}, "begun_on": begun_on, "revision": 0}
    saved = service.call(CHIEF, "PUT", "mappings/orders/draft", body)
    assert saved.status_code == 200, saved.text
    known = {key: saved.json()[key] for key in ("begun_on", "revision")}
    body = {"reason": "agreed with the sender", "listeners": [], **known}
    answer = service.call(CHIEF, "POST", "mappings/orders/activate", body)
    assert answer.status_code == 200, answer.text
    return str(begun_on)


def test_two_versions_are_compared(service: ServiceHarness, page: Page) -> None:
    """What is new and what is gone is marked in its place, in words too; the files have it."""
    before = change_orders(service)
    enter(page, service, VIEWER, "connections/listener/orders/specification")
    page.get_by_label("Compare with").select_option(before)
    changes = page.get_by_role("region", name=re.compile("^Changes since"))
    expect(changes.get_by_role("row").filter(has_text="ZDS-2")).to_contain_text("new")
    expect(changes.get_by_role("row").filter(has_text="ZDS-1")).to_contain_text("removed")
    segment = page.get_by_role("region", name=re.compile("^ZDS"))
    expect(segment.get_by_role("row", name="+ new ZDS-2")).to_be_visible()
    expect(segment.get_by_role("row", name="removed ZDS-1")).to_be_visible()
    assert f"compare={before}" in page.url
    assert violations(page) == []
    page.get_by_label("Version", exact=True).select_option(before)
    expect(segment.get_by_role("rowheader", name="ZDS-1", exact=True)).to_be_visible()
    expect(page.get_by_text("Nothing changes for the partner.")).to_be_visible()
    page.get_by_label("Version", exact=True).select_option("active")
    expect(changes.get_by_role("row").filter(has_text="ZDS-2")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="HTML").click()
    assert "ZDS-2" in download.value.path().read_text("utf-8").partition("Transport</h2>")[0]


def test_a_connection_that_is_not_there(service: ServiceHarness, page: Page) -> None:
    """The page says so, and keeps its place."""
    enter(page, service, VIEWER, "connections/destination/nobody/specification")
    expect(page.get_by_text("There is no connection nobody")).to_be_visible()


def test_the_service_fails(service: ServiceHarness, page: Page) -> None:
    """The document says what failed, and is read again on request."""
    failing = "**/api/specifications/**"
    page.route(failing, lambda route: route.fulfill(status=503, json={"detail": "too much work"}))
    enter(page, service, VIEWER, PAGE)
    expect(page.get_by_text("too much work")).to_be_visible()
    assert violations(page) == []
    page.unroute(failing)
    page.get_by_role("button", name="Retry now").click()
    expect(page.get_by_role("heading", name=re.compile(r"\d Transport"))).to_be_visible()
