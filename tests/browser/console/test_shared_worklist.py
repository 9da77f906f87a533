"""Scheduled steps, and merged patients with the repair of a wrong merge, in a browser."""

import json

import pytest
from playwright.sync_api import Locator, Page, expect

from bridge.contract import OrderKey
from bridge.store.databases import bridge_database
from bridge.store.records import order_index
from bridge.store.records.scheduled_steps import ScheduledStep, StepStatus, replace_all
from tests.acceptance.orders import adt, order
from tests.acceptance.wire import Sender
from tests.browser.axe import violations
from tests.browser.console.conftest import OPERATOR, ServiceHarness
from tests.browser.console_client import enter

pytestmark = [pytest.mark.browser, pytest.mark.slow]
SIZES = [(1440, 900), (390, 844)]


def fits(page: Page) -> bool:
    """True if nothing is wider than the window, and axe finds nothing."""
    wide = page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    return bool(wide) and violations(page) == []


def test_the_steps_that_modalities_see(service: ServiceHarness, page: Page) -> None:
    """With status, stations and accession; one press opens the order."""
    with Sender(service.house.mllp_port) as sender:
        sender.ask(order(7031))
    service.house.settle()
    key = OrderKey("SITE1", "M7031", "A7031")
    step = ScheduledStep(
        key, 0, "SPS7", "1.2.3", StepStatus.ARRIVED, "CT", ("CT1", "CT2"), "Room 1",
        20261130, "143000", "{}", 1,
    )  # fmt: skip
    with bridge_database(service.house.home) as database, database.write() as connection:
        replace_all(connection, {key: [step]})
    enter(page, service, OPERATOR, "modality-worklist")
    grid = page.get_by_role("grid", name="Modality worklist")
    row = grid.get_by_role("row").filter(has_text="A7031")
    for text in ("2026-11-30 14:30", "arrived", "CT1, CT2", "Room 1", "SPS7"):
        expect(row).to_contain_text(text)
    assert "A7031" not in page.url
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        assert fits(page)
    page.set_viewport_size({"width": 1440, "height": 900})
    expect(row).to_contain_text("P7031")
    row.get_by_role("link", name="A7031", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Order A7031")


def test_a_message_that_contradicts_what_is_known(service: ServiceHarness, page: Page) -> None:
    """The patients whom it names are side by side, on its page and by the command."""
    moved = b"MSH|^~\\&|ADT|HOSP|BRIDGE|RAD|20260102030405||ADT^A43|C7053|P|2.5.1\r"
    moved += b"EVN||20260102030405\rPID|1||M7051^^^HOSP^MR||FREED^ILSE||19610607|F\r"
    with Sender(service.house.mllp_port) as sender:
        sender.ask(order(7051, name="FREED^IDA"))
        sender.ask(order(7052, name="SURVIVOR^EVA"))
        sender.ask(moved + b"MRG|M7052^^^HOSP^MR\r")
    service.house.settle()
    (row,) = json.loads(service.house.bridge("messages", "list", "--limit", "1", "--json"))
    assert row["code"] == "identifier_moved"
    enter(page, service, OPERATOR, f"messages/{row['id']}")
    table = page.get_by_role("region", name="Patients of this message").get_by_role("table")
    names = table.get_by_role("row", name="Name")
    expect(names.get_by_role("cell")).to_have_text(["FREED, ILSE", "FREED, IDA", "SURVIVOR, EVA"])
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        assert fits(page)
    found = json.loads(service.house.bridge("messages", "show", str(row["id"]), "--json"))
    known = [(entry["known"]["mrn"], entry["known"]["name"]) for entry in found["patients"]]
    assert known == [("M7051", "FREED^IDA"), ("M7052", "SURVIVOR^EVA")]
    assert [entry["orders"] for entry in found["patients"]] == [1, 1]
    text = service.house.bridge("messages", "show", str(row["id"]))
    assert "in the message: FREED^ILSE | 19610607 | F" in text


def undo(page: Page, merge: Locator, verb: str = "Undo the merge") -> None:
    """Undo a merge, by which one order returns."""
    merge.get_by_role("button", name=verb).click()
    question = page.get_by_role("alertdialog")
    expect(question).to_contain_text("1 order returns")
    question.get_by_label("Reason").fill("two persons")
    question.get_by_role("button", name=verb).click()
    expect(page.get_by_role("status").filter(has_text="1 order returned")).to_be_visible()


def test_a_wrong_merge_is_undone(service: ServiceHarness, page: Page) -> None:
    """
    Both patients side by side, what returns, and the undo with a reason.

    The rows are links, one order is left with the survivor, and the page of another one leads to
    the patients. A signed one stays, and returns afterwards.
    """
    with Sender(service.house.mllp_port) as sender:
        sender.ask(order(7041, name="FREED^IDA"))
        sender.ask(order(7044, mrn="M7041", name="FREED^IDA"))
        sender.ask(order(7045, mrn="M7041", name="FREED^IDA"))
        sender.ask(order(7042, name="SURVIVOR^EVA"))
        sender.ask(adt("A40", 7043, "M7042", "SURVIVOR^EVA", "M7041"))
    service.house.settle()
    service.house.draft("M7042", "A7045", "Normal.")
    service.house.sign("M7042", "A7045", ignoreSignDelay=True)
    enter(page, service, OPERATOR, "merges")
    grid = page.get_by_role("grid", name="Merged patients")
    grid.get_by_role("link", name="M7041").click()
    merge = page.get_by_role("dialog", name="Merge of two patient numbers")
    for text in ("FREED", "SURVIVOR", "A7041", "returns"):
        expect(merge).to_contain_text(text)
    assert "M7041" not in page.url
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        assert fits(page)
    page.set_viewport_size({"width": 1440, "height": 900})
    page.go_back()
    expect(merge).to_be_hidden()
    page.go_forward()
    merge.get_by_role("row").filter(has_text="A7044").get_by_role("checkbox").uncheck()
    undo(page, merge)
    page.get_by_role("tab", name="Undone").click()
    expect(grid.get_by_role("row").filter(has_text="M7041")).to_be_visible()
    tags = [tags for row in service.house.worklist(Accession="A7041") for tags in row["orders"]]
    assert [(own["PatientMRN"], own["PatientName"]) for own in tags] == [("M7041", "FREED^IDA")]
    tags = [tags for row in service.house.worklist(Accession="A7044") for tags in row["orders"]]
    assert [(own["PatientMRN"], own["PatientName"]) for own in tags] == [("M7042", "SURVIVOR^EVA")]
    grid.get_by_role("link", name="M7041").click()
    expect(merge).to_contain_text("returned")
    with bridge_database(service.house.home) as database, database.read() as connection:
        (found,) = order_index.find_named(connection, ["SITE1"], "A7041", "")
        ((row_id, _),) = order_index.states(connection, [found.key]).values()
    enter(page, service, OPERATOR, f"orders/{row_id}")
    page.get_by_role("button", name="Compare the patients").click()
    for text in ("FREED", "SURVIVOR", "A7041", "returned", "stays: signed"):
        expect(merge).to_contain_text(text)
    assert "M7041" not in page.url
    expect(merge.get_by_role("button", name="Return the orders")).to_be_hidden()
    merge.get_by_label("Return orders too that were signed").check()
    undo(page, merge, "Return the orders")
    tags = [tags for row in service.house.worklist(Accession="A7045") for tags in row["orders"]]
    assert [(own["PatientMRN"], own["PatientName"]) for own in tags] == [("M7041", "FREED^IDA")]
