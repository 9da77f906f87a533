"""DICOM peers in the console: from a refused modality to a peer, and a PACS as a destination."""

import pytest
from playwright.sync_api import Page, expect

from bridge.runtime.schedule import now_ms
from bridge.store.databases import bridge_database
from bridge.store.records.dicom_peers import (
    PeerActivity,
    RefusalKey,
    store_peers,
    store_refusals,
)
from tests.browser.axe import violations
from tests.browser.console.conftest import CHIEF, VIEWER, ServiceHarness
from tests.browser.console_client import enter

pytestmark = [pytest.mark.browser, pytest.mark.slow]
SIZES = [(390, 844), (1440, 900)]


def assert_fits(page: Page) -> None:
    """Assert that nothing is wider than the window, and that axe finds nothing."""
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert violations(page) == []


def test_a_refused_modality_becomes_a_peer(service: ServiceHarness, page: Page) -> None:
    """Whom the port refused is listed with the reason, and its form is filled in by one press."""
    with bridge_database(service.house.home) as database, database.write() as connection:
        key = RefusalKey("10.1.4.30", "US 1/A", "calling title")
        store_refusals(connection, {key: 3}, now_ms())
    enter(page, service, CHIEF, "connections?show=dicom-peer")
    row = page.get_by_role("table", name="Refused within an hour").get_by_role("row")
    row = row.filter(has_text="US 1/A")
    for text in ("10.1.4.30", "unknown AE title", "3"):
        expect(row).to_contain_text(text)
    expect(page.get_by_text("The DICOM port is off").first).to_be_visible()
    assert_fits(page)
    row.get_by_role("button", name="Add as peer").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("New DICOM peer")
    expect(page.get_by_label("AE title", exact=True)).to_have_value("US 1/A")
    expect(page.get_by_label("Addresses")).to_have_value("10.1.4.30")
    page.get_by_label("Stations").fill("US 1, US 2")
    page.get_by_label("performed steps (MPPS)").check()
    assert_fits(page)
    page.get_by_label("Reason for the audit trail").fill("a new room")
    page.get_by_role("button", name="Save and activate").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("US 1/A")
    saved = service.call(CHIEF, "GET", "connections/dicom-peer/US%201%2FA").json()
    assert saved["table"] == {
        "ae_title": "US 1/A",
        "addresses": ["10.1.4.30"],
        "may": ["worklist", "performed"],
        "stations": ["US 1", "US 2"],
    }
    with bridge_database(service.house.home) as database, database.write() as connection:
        now = now_ms()
        store_peers(connection, {"US 1/A": PeerActivity("10.1.4.30", now, "C-FIND", now, 4)})
    expect(page.get_by_text("C-FIND · 4 answers")).to_be_visible()
    expect(page.get_by_text("from 10.1.4.30")).to_be_visible()
    assert_fits(page)
    page.get_by_role("tab", name="History").click()
    expect(page.get_by_role("table", name="Settings history")).to_contain_text("a new room")
    page.goto(f"{service.house.url}/console/connections?show=dicom-peer")
    expect(page.get_by_role("grid", name="DICOM peers")).to_contain_text("worklist, MPPS")


def test_who_may_only_see(service: ServiceHarness, page: Page) -> None:
    """A user who may not set up connections sees peers, and no button that adds one."""
    enter(page, service, VIEWER, "connections?show=dicom-peer")
    expect(page.get_by_role("heading", name="DICOM port")).to_be_visible()
    expect(page.get_by_role("button", name="Add as peer")).to_have_count(0)


def test_a_pacs_as_a_destination(service: ServiceHarness, page: Page) -> None:
    """The form has AE titles and objects of a PACS in place of HL7, and its address is saved."""
    enter(page, service, CHIEF, "connections/new?kind=destination")
    page.get_by_label("Name", exact=True).fill("archive")
    expect(page.get_by_label("HL7 version")).to_have_count(1)
    page.get_by_role("button", name="PACS", exact=True).click()
    expect(page.get_by_label("HL7 version")).to_have_count(0)
    expect(page.get_by_label("recalls")).to_have_count(0)
    page.get_by_label("AE title of the PACS").fill("PACS 1")
    page.get_by_label("Host and port of the PACS").fill("127.0.0.1:9")
    page.get_by_label("Our AE title").fill("BRIDGE")
    page.get_by_label("Request storage commitment").check()
    page.get_by_role("button", name="Test connection").click()
    expect(page.get_by_role("list", name="Test connection")).to_contain_text("refused")
    assert_fits(page)
    page.get_by_label("Reason for the audit trail").fill("reports to the archive")
    page.get_by_role("button", name="Save and activate").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("archive")
    table = service.call(CHIEF, "GET", "connections/destination/archive").json()["table"]
    assert table["address"] == "dicom://PACS 1@127.0.0.1:9"
    assert table["dicom"] == {"calling_ae_title": "BRIDGE", "commitment": True}
    page.get_by_role("tab", name="Settings").click()
    expect(page.get_by_label("AE title of the PACS")).to_have_value("PACS 1")
    page.get_by_role("button", name="PACS (DICOMweb)").click()
    expect(page.get_by_label("Request storage commitment")).to_have_count(0)
