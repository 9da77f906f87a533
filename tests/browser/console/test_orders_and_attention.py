"""The page of an order, and what needs attention, in a browser."""

import os
import signal
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.house import House
from tests.acceptance.orders import order
from tests.acceptance.wire import Sender
from tests.browser.axe import violations
from tests.browser.console.conftest import OPERATOR, VIEWER, ServiceHarness, add_people
from tests.browser.console_client import ConsoleClient, enter
from tests.eventually import eventually

pytestmark = [pytest.mark.browser, pytest.mark.slow]
SIZES = [(1440, 900), (390, 844)]


def open_order(page: Page, accession: str) -> None:
    """Search a number like a person who takes a call: one press opens the order."""
    links = page.get_by_role("navigation").get_by_role("link", name="Orders")
    expect(links).to_be_visible()  # the account is known
    page.keyboard.press("/")
    page.get_by_role("combobox", name="Search").fill(accession)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Order {accession}")


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_an_order_says_its_state_and_shows_its_steps(
    service: ServiceHarness, page: Page, theme: str
) -> None:
    """Its sentence, the milestones with durations, the timeline, report and result."""
    enter(page, service, OPERATOR, "overview")
    page.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
    open_order(page, "A7001")
    said = page.get_by_role("main").get_by_role("heading", level=2).first
    expect(said).to_contain_text("The report was signed by")
    expect(said).to_contain_text("ris has it")
    steps = page.get_by_role("list", name="Timeline")
    expect(steps).to_contain_text("ORM^O01 from orders, acknowledged AA")
    expect(steps).to_contain_text("Accepted by ris")
    expect(page.get_by_role("list", name="Milestones")).to_contain_text("applied")
    assert "A7001" not in page.url + page.title()
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    steps.get_by_role("link", name="Accepted by ris").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("final to ris")


def test_an_order_waits_for_a_reader(service: ServiceHarness, page: Page) -> None:
    """The place on the worklist is named; a new message appears without a reload."""
    enter(page, service, OPERATOR, "overview")
    open_order(page, "A7002")
    expect(page.get_by_role("main").get_by_role("heading", level=2).first).to_contain_text(
        "for a reader"
    )
    expect(page.get_by_role("main")).to_contain_text("place ")
    with Sender(service.house.mllp_port) as sender:
        sender.ask(order(7002, accession="A7002", control="XO", msh10="C7102"))
    expect(page.get_by_role("region", name="Messages").get_by_role("listitem")).to_have_count(2)


def test_a_message_that_is_applied_late(tmp_path: Path, page: Page) -> None:
    """
    The page of an order shows what a message changes, however long its application takes.

    Another process applies it, which stands still until the page has asked for the message.
    """
    house = House(tmp_path / "home")
    house.make()
    try:
        house.start("--role", "engine", "--role", "console")
        intake = house.start("--role", "intake", "--role", "delivery", beside=True)
        add_people(house)
        with Sender(house.mllp_port) as sender:
            sender.ask(order(7020))
            console = ConsoleClient(house)
            eventually(lambda: house.row("A7020"))
            enter(page, console, OPERATOR, "overview")
            open_order(page, "A7020")
            messages = page.get_by_role("region", name="Messages").get_by_role("listitem")
            expect(messages).to_have_count(1)
            os.kill(intake.child(), signal.SIGSTOP)
            sender.ask(order(7020, control="XO", title="CT ABDOMEN", msh10="C7120"))
            expect(messages).to_have_count(2)
            expect(page.get_by_role("main")).to_contain_text("CT CHEST")
            os.kill(intake.child(), signal.SIGCONT)
            expect(page.get_by_role("main")).to_contain_text("CT ABDOMEN")
            expect(page.get_by_role("main")).not_to_contain_text("CT CHEST")
    finally:
        house.kill()


def test_a_cause_is_shown_with_its_action(service: ServiceHarness, page: Page) -> None:
    """A parked message of a missing site; the number opens the list behind it."""
    enter(page, service, VIEWER, "attention")
    group = page.get_by_role("listitem").filter(has_text="The site of the order does not exist")
    expect(group).to_contain_text("stray")
    expect(group.get_by_role("button")).to_have_count(0)
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.set_viewport_size({"width": 1440, "height": 900})
    group.get_by_role("link", name="Show it").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Messages")
    expect(page.get_by_role("grid", name="Messages")).to_contain_text("stray")


def test_an_item_is_marked_as_reviewed(service: ServiceHarness, page: Page) -> None:
    """A cancelled order with a dictated report is listed, and marked by an operator."""
    house = service.house
    with Sender(house.mllp_port) as sender:
        sender.ask(order(7010, accession="A7010"))
        house.settle()
        house.draft("M7010", "A7010", "Begun.")
        sender.ask(order(7010, accession="A7010", control="CA", msh10="C7011"))
    house.settle()
    enter(page, service, OPERATOR, "attention")
    group = page.get_by_role("listitem").filter(has_text="its report has text and was kept")
    group.get_by_role("button", name="Show it").click()
    expect(group.get_by_role("link", name="Message")).to_be_visible()
    assert violations(page) == []
    group.get_by_role("button", name="Mark as reviewed", exact=True).click()
    dialog = page.get_by_role("alertdialog")
    dialog.get_by_label("Reason").fill("asked the reader")
    dialog.get_by_role("button", name="Mark as reviewed").click()
    expect(page.get_by_text("1 item is reviewed.")).to_be_visible()
    expect(group).to_have_count(0)


def test_an_order_returns_to_the_unread_ones(service: ServiceHarness, page: Page) -> None:
    """An order that is reported elsewhere; a viewer has no button, and a reason is required."""
    with Sender(service.house.mllp_port) as sender:
        sender.ask(order(7009))
        done = order(7009, control="SC", status="CM", msh10="C7109", sent="20260102040506")
        sender.ask(done.replace(b"|CT|||||||", b"|CT|F||||||"))
    service.house.settle()
    enter(page, service, OPERATOR, "overview")
    open_order(page, "A7009")
    back = page.get_by_role("button", name="Return to unread")
    expect(back).to_be_visible()
    worklist = page.get_by_role("main").get_by_text("Worklist", exact=True)
    expect(worklist).to_have_count(0)
    back.click()
    question = page.get_by_role("alertdialog")
    question.get_by_label("Reason").fill("second opinion")
    question.get_by_role("button", name="Return to unread").click()
    said = page.get_by_role("main").get_by_role("heading", level=2).first
    expect(said).to_contain_text("for a reader")
    expect(back).to_have_count(0)
    expect(worklist).to_have_count(1)
