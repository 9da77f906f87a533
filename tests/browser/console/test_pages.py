"""The console's pages in Chromium at 1280 x 720, by mouse and by keyboard, and their endpoints."""

from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from bridge.admin.packages.activation import pack_zip, unpack_zip
from config import load
from tests.acceptance.orders import order
from tests.acceptance.wire import Sender
from tests.browser.axe import violations
from tests.browser.console.conftest import (
    CHIEF,
    OPERATOR,
    VIEWER,
    WITHOUT_ROLE,
    ServiceHarness,
)
from tests.browser.console_client import enter
from tests.eventually import PATIENCE, eventually

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_a_message_is_found_and_read_by_keyboard(service: ServiceHarness, page: Page) -> None:
    """The user searches an accession, opens the message, and changes its views by arrow keys."""
    service.found(OPERATOR, kind="order", number="A7001")
    enter(page, service, OPERATOR, "messages")
    grid = page.get_by_role("grid", name="Messages")
    expect(grid.get_by_role("row").nth(2)).to_be_visible()
    page.keyboard.press("f")
    page.keyboard.type("number")
    page.keyboard.press("Enter")
    page.get_by_role("textbox", name="Number").fill("A7001")
    page.keyboard.press("Enter")
    expect(grid.get_by_role("row")).to_have_count(2)
    assert "A7001" not in page.url
    grid.focus()
    page.keyboard.press("o")
    history = page.get_by_role("tab", name="History")
    history.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("Accepted by ris")).to_be_visible()
    page.keyboard.press("Home")
    expect(page.get_by_role("tree", name="Message")).to_contain_text("PID-3.1")
    assert violations(page) == []
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tabpanel")).to_contain_text("MSA|AA|C7001")


def test_a_viewer_sees_only_permitted_actions(service: ServiceHarness, page: Page) -> None:
    """A viewer's pages offer no content, replay, pause or audit trail."""
    enter(page, service, VIEWER, "messages")
    page.get_by_role("grid", name="Messages").get_by_role("row").nth(1).dblclick()
    expect(page.get_by_text("You do not have permission to read message content")).to_be_visible()
    expect(page.get_by_role("button", name="Replay")).to_have_count(0)
    expect(page.get_by_role("link", name="Audit")).to_have_count(0)
    for name in ("Orders", "Sites", "Access", "Mappings"):
        expect(page.get_by_role("link", name=name)).to_have_count(0)
    expect(page.get_by_role("button", name="Edit and resend")).to_have_count(0)
    page.get_by_role("link", name="Connections").click()
    expect(page.get_by_role("grid", name="Connections")).to_contain_text("orders")


def test_a_parked_message_is_replayed(service: ServiceHarness, page: Page) -> None:
    """The page shows the cause; a replay parks the message again while the cause remains."""
    enter(page, service, OPERATOR, "attention")
    group = page.get_by_role("listitem").filter(has_text="The site of the order does not exist")
    expect(group).to_contain_text("stray")
    group.get_by_role("button", name="Replay").click()
    dialog = page.get_by_role("alertdialog")
    dialog.get_by_label("Reason").fill("the site was added")
    dialog.get_by_role("button", name="Replay").click()
    expect(page.get_by_role("status").filter(has_text="started")).to_be_visible()

    def succeeded() -> bool:
        newest = service.call(OPERATOR, "GET", "background-jobs").json()["rows"][0]
        return bool(newest["finished_at"] and newest["succeeded"] == 1)

    eventually(succeeded)
    service.house.settle()
    page.reload()
    expect(group).to_contain_text("stray")


def test_an_account_without_a_role_sees_a_notice(service: ServiceHarness, page: Page) -> None:
    enter(page, service, WITHOUT_ROLE, "overview")
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
    kinds = [step["kind"] for step in steps]
    assert (kinds[:2], kinds[-3:]) == (["received", "applied"], ["queued", "sent", "accepted"])


def test_the_content_of_a_message(service: ServiceHarness) -> None:
    """A user who may read bodies gets the raw message, its tree and acknowledgment."""
    row = service.found(OPERATOR, kind="order", number="A7001")[0]
    content = service.call(OPERATOR, "GET", f"messages/{row['id']}/content").json()
    assert content["raw"].startswith("MSH|")
    assert "MSA|AA|C7001" in content["ack"]["raw"]
    pid = next(item for item in content["tree"] if item["place"] == "PID")
    places = {
        part["place"]: part["text"] for field in pid["children"] for part in field["children"]
    }
    assert places["PID-3.1"] == "M7001"


def test_the_audit_trail_contains_no_numbers(service: ServiceHarness) -> None:
    """The audit trail has reads, searches and refused requests with their user, and no number."""
    row = service.found(OPERATOR, kind="patient", number="M7001")[0]
    service.call(OPERATOR, "GET", f"messages/{row['id']}/content")
    service.call(VIEWER, "GET", f"messages/{row['id']}/content")
    answer = service.call(CHIEF, "POST", "lists/audit", {})
    events = {(e["email"], e["action"], e["subject"], e["outcome"]) for e in answer.json()["rows"]}
    assert (OPERATOR, "search", "messages by number", "done") in events
    assert (OPERATOR, "read", f"message {row['id']}", "done") in events
    assert (VIEWER, "read", f"message {row['id']}", "not_permitted") in events
    assert "M7001" not in answer.text
    assert service.call(OPERATOR, "POST", "lists/audit", {}).status_code == 403


def test_error_statuses(service: ServiceHarness) -> None:
    """404 for unknown rows, channels and endpoints, 409 for a wrong state, 400 for a bad body."""
    row = service.found(OPERATOR, kind="order", number="A7001")[0]
    assert service.call(OPERATOR, "GET", "messages/999999").status_code == 404
    assert service.call(OPERATOR, "GET", "nothing").status_code == 404
    assert service.call(OPERATOR, "POST", "channels/listener/none/pause", {}).status_code == 404
    assert service.call(OPERATOR, "POST", f"messages/{row['id']}/cancel", {}).status_code == 409
    bad = service.call(OPERATOR, "POST", "lists/messages", {"patient": "M7001"})
    assert (bad.status_code, "M7001" in bad.text) == (400, False)


def test_an_unmapped_code_gets_an_entry(service: ServiceHarness, page: Page) -> None:
    """A code that a message had is listed with its table; the new entry is in the draft."""
    raw = order(7013, accession="A7013").replace(b"|19700203|F\r", b"|19700203|Q9\r")
    with Sender(service.house.mllp_port) as sender:
        sender.ask(raw)
    eventually(lambda: "Q9" in service.call(CHIEF, "GET", "unknown-codes").text)
    enter(page, service, CHIEF, "mappings")
    page.get_by_role("tab", name="Unmapped codes").click()
    table = page.get_by_role("grid", name="Unmapped codes")
    expect(table).to_contain_text("field left empty")
    assert violations(page) == []
    table.get_by_role("button", name="Add an entry Q9").click()
    dialog = page.get_by_role("dialog", name="Entry for Q9")
    dialog.get_by_label("Value for Q9").fill("O")
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
    enter(page, service, CHIEF, "connections")
    page.get_by_role("button", name="Actions for ris", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="Export").click()
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

    page.goto(f"{service.house.url}/console/mappings")
    page.get_by_role("button", name="New", exact=True).click()
    page.get_by_role("menuitem", name="Import from Mirth or a package").click()
    main = page.get_by_role("main")
    choose = main.locator("input[type=file]")
    changes = main.get_by_role("list", name="Changes of listeners and destinations")
    choose.set_input_files(file)
    expect(changes).to_have_text("Destination ris does not change")
    choose.set_input_files(again)
    expect(changes).to_have_text("Destination ris-2 new")
    main.get_by_text("All settings of these").click()
    expect(main.get_by_text('name = "ris-2"')).to_be_visible()
    assert violations(page) == []
    assert "ris-2" not in destinations(service)
    main.get_by_label("Reason").fill("a second receiver")
    main.get_by_role("button", name="Import", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="Imported: ris-2")).to_be_visible()
    assert "ris-2" in destinations(service), "active at once, and in no file"
    assert "ris-2" not in [destination.name for destination in load(service.house.home).destination]
    audit = service.call(CHIEF, "POST", "lists/audit", {}).json()["rows"]
    event = next(row for row in audit if row["action"] == "import")
    assert (event["subject"], event["reason"]) == ("interface ris-2", "a second receiver")

    choose.set_input_files(later)
    expect(changes).to_contain_text("Destination ris-2 is replaced")
    expect(changes).to_contain_text("time_zone: default → Europe/Vienna")
    assert violations(page) == []
    main.get_by_label("Replace what exists: ris-2").check()
    main.get_by_label("Reason").fill("its clock")
    main.get_by_role("button", name="Import", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="Imported: ris-2").first).to_be_visible()


def destinations(service: ServiceHarness) -> list[str]:
    found = service.call(CHIEF, "GET", "channels").json()["destinations"]
    return [row["name"] for row in found]


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
    """Long names fit into the account menu and the worklist; markup is escaped."""
    long = {"email": VIEWER, "name": "Very Long Name " * 10, "role": "user"}
    assert service.call(CHIEF, "POST", "sites/SITE1/users", long).status_code < 300
    name = f"<script>alert(1)</script>^{'L' * 200}"
    with Sender(service.house.mllp_port) as sender:
        sender.ask(order(7014, accession="A7014", name=name))
    service.house.settle()
    enter(page, service, VIEWER, "messages")
    links = page.get_by_role("navigation").get_by_role("link")
    links.first.wait_for()
    boxes = [link.bounding_box() for link in links.all()]
    assert len({box["x"] + box["width"] for box in boxes if box}) == 1
    page.get_by_role("button", name="Account of Very Long Name").click()
    menu = page.get_by_role("dialog", name="Account").bounding_box()
    assert menu is not None
    assert menu["x"] + menu["width"] <= 1280
    enter(page, service, OPERATOR, "worklist")
    row = page.get_by_role("row").filter(has_text="A7014")
    expect(row).to_contain_text("<script>alert(1)</script>")
    box = row.bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 1280
