"""Console pages in Chromium: exceptions, order tracking, codes, interface packages, sessions."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from bridge.admin.packages.activation import pack_zip, unpack_zip
from config import load
from tests.acceptance.orders import order
from tests.acceptance.wire import Sender
from tests.browser.axe import violations
from tests.browser.console.conftest import CHIEF, OPERATOR, VIEWER, ServiceHarness
from tests.browser.console_client import enter
from tests.eventually import eventually

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_an_exception_is_marked_as_reviewed(service: ServiceHarness, page: Page) -> None:
    """A cancelled order with a dictated report is counted, listed, and marked by an operator."""
    house = service.house
    with Sender(house.mllp_port) as sender:
        sender.ask(order(7010, accession="A7010"))
        house.settle()
        house.draft("M7010", "A7010", "Begun.")
        sender.ask(order(7010, accession="A7010", control="CA", msh10="C7011"))
    house.settle()
    enter(page, service, VIEWER)
    tile = page.get_by_role("listitem").filter(has_text="Needs attention")
    expect(tile).to_contain_text("1")
    page.goto(f"{house.url}/console/parked")
    table = page.get_by_role("table", name="Needs attention")
    expect(table).to_contain_text("Its report contains text")
    expect(table.get_by_role("button", name="Mark as reviewed")).to_have_count(0)
    enter(page, service, OPERATOR, "parked")
    assert violations(page) == []
    table.get_by_role("button", name="Mark as reviewed").click()
    expect(table).to_contain_text(OPERATOR)
    table.get_by_role("button", name="Track order A7010").click()
    expect(page.get_by_role("table", name="Orders")).to_contain_text("A7010")


def test_an_order_is_found_by_other_numbers(service: ServiceHarness, page: Page) -> None:
    """Order tracking finds an order by placer number, and all orders of a patient."""
    with Sender(service.house.mllp_port) as sender:
        sender.ask(order(7012, accession="A7012", mrn="M7001"))
    service.house.settle()
    service.found(OPERATOR, kind="order", number="P7012")
    enter(page, service, OPERATOR, "find")
    page.get_by_label("Accession, placer or filler number").fill("P7012")
    page.keyboard.press("Enter")
    orders = page.get_by_role("table", name="Orders")
    expect(orders).to_contain_text("A7012")
    page.get_by_label("Search by").select_option("patient")
    page.get_by_label("Patient ID", exact=True).fill("M7001")
    page.keyboard.press("Enter")
    expect(orders).to_contain_text("A7001")
    assert violations(page) == []
    orders.get_by_role("button", name="Show only A7001").click()
    expect(orders).not_to_contain_text("A7012")
    expect(orders).to_contain_text("Final")


def test_an_unmapped_code_gets_an_entry(service: ServiceHarness, page: Page) -> None:
    """A code that a message had is listed with its table; the new entry is in the draft."""
    raw = order(7013, accession="A7013").replace(b"|19700203|F\r", b"|19700203|Q9\r")
    with Sender(service.house.mllp_port) as sender:
        sender.ask(raw)
    eventually(lambda: "Q9" in service.call(CHIEF, "GET", "unknown-codes").text)
    enter(page, service, CHIEF, "mappings")
    table = page.get_by_role("table", name="Unmapped codes")
    expect(table).to_contain_text("field left empty")
    page.get_by_label("Value for Q9").fill("O")
    assert violations(page) == []
    page.keyboard.press("Enter")
    expect(table).to_contain_text("In your draft: O")
    table.get_by_role("link", name="orders").click()
    expect(page.get_by_text("Draft saved. Changed files: 1.")).to_be_visible()
    expect(page.get_by_text("No errors")).to_be_visible()


def test_an_interface_package_is_exported_and_imported(
    service: ServiceHarness, page: Page, tmp_path: Path
) -> None:
    """An exported package is imported under another name after a review of its changes."""
    enter(page, service, CHIEF, "mappings")
    with page.expect_download() as download:
        page.get_by_role("button", name="Export ris").click()
    file = tmp_path / "ris.zip"
    download.value.save_as(file)
    files = dict(unpack_zip(file.read_bytes()))
    own = files["interface.toml"]
    files["interface.toml"] = own.replace('"ris"', '"ris-2"')
    again = tmp_path / "ris-2.zip"
    again.write_bytes(pack_zip(files))
    later = tmp_path / "later.zip"
    settings = files["interface.toml"] + 'time_zone = "Europe/Vienna"\n'
    later.write_bytes(pack_zip({**files, "interface.toml": settings}))

    page.get_by_role("button", name="Import an interface").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("ZIP file").set_input_files(file)
    dialog.get_by_role("button", name="Review changes").click()
    changes = dialog.get_by_role("list", name="Changes of listeners and destinations")
    expect(changes).to_have_text("Destination ris does not change")
    dialog.get_by_role("button", name="Choose another file").click()
    dialog.get_by_label("ZIP file").set_input_files(again)
    dialog.get_by_role("button", name="Review changes").click()
    expect(changes).to_have_text("Destination ris-2 new")
    dialog.get_by_text("All settings of these").click()
    expect(dialog.get_by_text('name = "ris-2"')).to_be_visible()
    assert violations(page) == []
    assert "ris-2" not in destinations(service)
    dialog.get_by_label("Reason").fill("a second receiver")
    dialog.get_by_role("button", name="Import", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="Imported: ris-2")).to_be_visible()
    assert "ris-2" in destinations(service), "active at once, and in no file"
    assert "ris-2" not in [each.name for each in load(service.house.home).destination]
    events = service.call(CHIEF, "GET", "deeds?action=import").json()["rows"]
    assert (events[0]["subject"], events[0]["reason"]) == ("interface ris-2", "a second receiver")

    page.get_by_role("button", name="Import an interface").click()
    dialog.get_by_label("ZIP file").set_input_files(later)
    dialog.get_by_role("button", name="Review changes").click()
    expect(changes).to_contain_text("Destination ris-2 is replaced")
    expect(changes).to_contain_text("time_zone: default → Europe/Vienna")
    assert violations(page) == []
    dialog.get_by_label("Replace what exists: ris-2").check()
    dialog.get_by_label("Reason").fill("its clock")
    dialog.get_by_role("button", name="Import", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="Imported: ris-2").first).to_be_visible()


def destinations(service: ServiceHarness) -> list[str]:
    found = service.call(CHIEF, "GET", "channels").json()["destinations"]
    return [each["name"] for each in found]


def test_nothing_typed_is_lost_when_a_session_ends(service: ServiceHarness, page: Page) -> None:
    """A dialog covers the page until the user signs in again; the typed text is still there."""
    row = service.found(OPERATOR, kind="order", number="A7003")[0]
    enter(page, service, OPERATOR, f"messages/{row['id']}")
    page.get_by_role("button", name="Edit and resend").click()
    patient = page.get_by_label("Segment 2, PID")
    patient.fill(patient.input_value().replace("M7003", "M7777"))
    expect(page.get_by_text("No problems found.")).to_be_visible()
    page.context.clear_cookies()
    patient.fill(f"{patient.input_value()}|more")
    ended = page.get_by_role("dialog", name="You were signed out")
    expect(ended).to_be_visible()
    page.keyboard.press("Escape")
    expect(ended).to_be_visible()
    assert violations(page) == []
    ended.get_by_role("button", name="Continue").click()
    expect(page.get_by_text("You are not signed in yet")).to_be_visible()
    service.add_cookies(page, OPERATOR)
    ended.get_by_role("button", name="Continue").click()
    expect(ended).to_have_count(0)
    assert "M7777" in patient.input_value()
    assert patient.input_value().endswith("|more")


def test_long_names_do_not_break_the_layout(service: ServiceHarness, page: Page) -> None:
    """A user's long name fits into the header, a patient's into the worklist; markup is escaped."""
    long = {"email": VIEWER, "name": "Very Long Name " * 10, "role": "user"}
    assert service.call(CHIEF, "POST", "sites/SITE1/users", long).status_code < 300
    name = f"<script>alert(1)</script>^{'L' * 200}"
    with Sender(service.house.mllp_port) as sender:
        sender.ask(order(7014, accession="A7014", name=name))
    service.house.settle()
    enter(page, service, VIEWER, "messages")
    links = page.get_by_role("navigation").get_by_role("link")
    links.first.wait_for()
    boxes = [each.bounding_box() for each in links.all()]
    assert len({box["y"] for box in boxes if box}) == 1
    enter(page, service, OPERATOR, "worklist")
    row = page.get_by_role("row").filter(has_text="A7014")
    expect(row).to_contain_text("<script>alert(1)</script>")
    box = row.get_by_role("button", name="Track order").bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 1280


def test_the_settings_of_a_site_are_accessible(service: ServiceHarness, page: Page) -> None:
    """The page of a site may send all requests that it needs."""
    enter(page, service, CHIEF, "sites/SITE1")
    page.get_by_label("Time zone").wait_for()
    page.wait_for_load_state("networkidle")
    expect(page.get_by_role("status").filter(has_text="wrong")).to_have_count(0)
    assert service.call(CHIEF, "GET", "sites/SITE1/observed-hosts").status_code == 200
