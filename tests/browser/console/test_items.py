"""The pages of one message and one delivery in Chromium: lines, differences, edit and resend."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.acceptance.orders import order
from tests.acceptance.wire import Sender
from tests.browser.axe import violations
from tests.browser.checked_pages import window
from tests.browser.console.conftest import OPERATOR, VIEWER, ServiceHarness
from tests.browser.console_client import enter
from tests.eventually import eventually

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def wide(chromium: Browser) -> Iterator[Page]:
    with window(chromium) as page:
        page.set_viewport_size({"width": 1440, "height": 900})
        yield page


def message_of(service: ServiceHarness, accession: str) -> int:
    """Return the newest message of an order."""
    return int(str(service.found(OPERATOR, kind="order", number=accession)[0]["id"]))


def delivery_of(service: ServiceHarness) -> int:
    """Return the first delivery to `ris`."""
    found = service.call(OPERATOR, "POST", "lists/deliveries", {}).json()["rows"]
    return int(found[-1]["id"])


def test_a_value_leads_to_its_source_and_rule(service: ServiceHarness, wide: Page) -> None:
    """A click on a tag draws its lines, and shows rule, source, and why others were not used."""
    enter(wide, service, OPERATOR, f"messages/{message_of(service, 'A7001')}")
    tree = wide.get_by_role("tree", name="Message")
    values = wide.get_by_role("region", name="Mapped values")
    values.get_by_role("button", name="PatientMRN M7001").click()
    sources = values.get_by_role("list", name="Sources, in their order").get_by_role("listitem")
    expect(sources.first).to_contain_text("PID-3[CX-5=MR].1")
    expect(sources.first).to_contain_text("used")
    expect(sources.nth(1)).to_contain_text("not needed: an earlier source has a value")
    expect(values).to_contain_text("orders.yaml:")
    expect(tree.get_by_role("treeitem", selected=True)).to_contain_text("PID-3.1")
    lines = wide.locator("svg path.used")
    expect(lines).to_have_count(1)
    wide.mouse.move(0, 0)
    assert violations(wide) == []
    birth = tree.get_by_role("treeitem", name="PID-7")
    birth.hover()
    row = values.get_by_role("listitem").filter(has_text="PatientBirthDate")
    expect(row).to_have_class(re.compile("linked"))
    expect(lines).to_have_count(2)
    birth.click()
    feeds = wide.get_by_label("Values that read this place")
    expect(feeds.get_by_role("button")).to_have_text(["→ PatientBirthDate", "→ PatientAge"])


def test_the_lines_are_reached_by_keyboard(service: ServiceHarness, wide: Page) -> None:
    """Typing finds a field, Enter goes to the value that it feeds, arrows go on from there."""
    enter(wide, service, OPERATOR, f"messages/{message_of(service, 'A7001')}")
    tree = wide.get_by_role("tree", name="Message")
    tree.focus()
    wide.keyboard.type("placer field")
    expect(tree.get_by_role("treeitem", selected=True)).to_contain_text("OBR-18")
    wide.keyboard.press("Enter")
    accession = wide.get_by_role("button", name="Accession A7001")
    expect(accession).to_be_focused()
    expect(accession).to_have_attribute("aria-expanded", "true")
    wide.keyboard.press("ArrowDown")
    expect(wide.get_by_role("button", name="PatientName DOE^JANE")).to_be_focused()


def test_tree_and_text_show_the_same_place(service: ServiceHarness, wide: Page) -> None:
    """Tree and raw text have one active place; empty fields are shown on demand."""
    enter(wide, service, OPERATOR, f"messages/{message_of(service, 'A7001')}")
    tree = wide.get_by_role("tree", name="Message")
    tree.get_by_role("treeitem", name="PID-8").click()
    expect(wide.get_by_text("Administrative sex · IS · Female")).to_be_visible()
    text = wide.get_by_role("group", name="Text of the segment")
    expect(text.locator(".active")).to_have_text("F")
    expect(tree.get_by_role("treeitem", name="PID-6")).to_have_count(0)
    wide.get_by_role("button", name="Empty fields").click()
    expect(tree.get_by_role("treeitem", name="PID-6")).to_be_visible()
    wide.get_by_role("button", name="Raw", exact=True).click()
    raw = wide.get_by_role("group", name="Raw")
    expect(raw.locator(".active")).to_have_text("F")
    raw.focus()
    wide.keyboard.press("ArrowLeft")
    expect(raw.locator(".active")).to_have_text("19700203")
    wide.get_by_role("button", name="Tree").click()
    expect(tree.get_by_role("treeitem", selected=True)).to_contain_text("PID-7")


def test_differences_and_neighbours(service: ServiceHarness, wide: Page) -> None:
    """A later message of the order shows what it changed, and leads to the earlier one and back."""
    first = message_of(service, "A7002")
    with Sender(service.house.mllp_port) as sender:
        changed = order(7002, accession="A7002", control="XO", title="CT ABDOMEN", msh10="C7002B")
        sender.ask(changed)
    service.house.settle()
    second = eventually(lambda: next(iter({message_of(service, "A7002")} - {first}), 0))
    enter(wide, service, OPERATOR, f"messages/{second}")
    wide.get_by_role("tab", name="Differences").click()
    table = wide.get_by_role("table", name="Differences")
    expect(table.get_by_role("row", name="OBR-4.2")).to_contain_text("CT CHEST")
    expect(table.get_by_role("row", name="OBR-4.2")).to_contain_text("CT ABDOMEN")
    assert violations(wide) == []
    wide.get_by_role("link", name="Previous of the same order").click()
    expect(wide).to_have_url(f"{service.house.url}/console/messages/{first}")
    wide.get_by_role("link", name="Next of the same patient").click()
    expect(wide).to_have_url(f"{service.house.url}/console/messages/{second}")


def test_a_viewer_reads_no_content(service: ServiceHarness, wide: Page) -> None:
    """Without the permission no content is requested; states and history are shown."""
    asked: list[str] = []
    wide.on("request", lambda request: asked.append(request.url))
    enter(wide, service, VIEWER, f"messages/{message_of(service, 'A7001')}")
    expect(wide.get_by_text("You do not have permission to read message content.")).to_be_visible()
    wide.get_by_role("tab", name="History").click()
    expect(wide.get_by_role("list", name="History")).to_contain_text("Accepted by ris")
    assert [url for url in asked if url.endswith(("/content", "/trace", "/difference"))] == []
    assert "DOE" not in wide.content()


def test_a_phone_has_no_lines(service: ServiceHarness, page: Page) -> None:
    """A narrow screen lists what a field feeds, and a value leads to its source."""
    page.set_viewport_size({"width": 390, "height": 844})
    enter(page, service, OPERATOR, f"messages/{message_of(service, 'A7001')}")
    page.get_by_role("treeitem", name="PID-7").click()
    expect(page.locator("svg path.used")).to_have_count(0)
    fed = page.get_by_label("Values that read this place")
    fed.get_by_role("button", name="PatientBirthDate").click()
    values = page.get_by_role("region", name="Mapped values")
    expect(values.get_by_role("button", name="PatientBirthDate")).to_be_focused()
    values.get_by_role("list", name="Sources").get_by_role("button", name="PID-7").click()
    expect(page.get_by_role("treeitem", selected=True)).to_contain_text("PID-7")


def test_a_parked_message_is_edited_and_sent_again(service: ServiceHarness, wide: Page) -> None:
    """The form checks while the user types; the new message and the old one link to each other."""
    parked = message_of(service, "A7003")
    enter(wide, service, OPERATOR, f"messages/{parked}")
    expect(wide.get_by_role("button", name="Edit and resend")).to_be_enabled()
    wide.keyboard.press("e")
    send = wide.get_by_role("button", name="Send as a new message")
    patient = wide.get_by_label("Segment 2, PID")
    original = patient.input_value()
    patient.fill(original.replace("M7003", ""))
    status = wide.get_by_role("form").get_by_role("status")
    expect(status).to_contain_text("PID-3.1")
    expect(send).to_be_disabled()
    wide.get_by_label("Segment 1, MSH").fill("MSH!^~\\&")
    expect(status).to_contain_text("the delimiters must not change")
    assert violations(wide) == []
    wide.get_by_role("button", name="Cancel").click()
    wide.get_by_role("button", name="Edit and resend").click()
    patient.fill(original.replace("M7003", "M7009"))
    expect(status).to_contain_text("No problems found.")
    send.click()
    expect(wide.get_by_text("Enter a reason.")).to_be_visible()
    wide.get_by_label("Reason").fill("patient number was mistyped")
    send.click()
    expect(wide.get_by_text("Reason: patient number was mistyped.")).to_be_visible()
    wide.get_by_role("link", name=f"Message {parked}").click()
    wide.get_by_role("tab", name="History").click()
    expect(wide.get_by_text("Edited and resent as message")).to_be_visible()


def test_a_result_is_edited_and_sent_again(service: ServiceHarness, wide: Page) -> None:
    """A corrected result goes to the receiver as a new delivery with a reason and a new MSH-10."""
    before = len(service.ris.received)
    first = delivery_of(service)
    enter(wide, service, OPERATOR, f"deliveries/{first}")
    wide.get_by_role("button", name="Edit and resend").click()
    patient = wide.get_by_label("Segment 2, PID")
    patient.fill(patient.input_value().replace("DOE", "ROE"))
    expect(wide.get_by_role("form").get_by_role("status")).to_contain_text("No problems found.")
    wide.get_by_label("Reason").fill("the name was mistyped")
    wide.get_by_role("button", name="Send as a new delivery").click()
    expect(wide.get_by_text("Reason: the name was mistyped.")).to_be_visible()
    service.ris.wait(before + 1)
    assert "ROE" in str(service.ris.received[-1])
    wide.get_by_role("link", name=f"Delivery {first}").click()
    wide.get_by_role("tab", name="History").click()
    expect(wide.get_by_text("Edited and resent as delivery")).to_be_visible()
