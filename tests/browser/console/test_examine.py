"""A partner is examined in Chromium: consent, checks one by one, report, settings that fit."""

import re

import pytest
from playwright.sync_api import Page, expect

from mllp.framing import frame
from tests.acceptance.house import free_port
from tests.acceptance.orders import order
from tests.acceptance.wire import Sender, accept, sink
from tests.browser.axe import violations
from tests.browser.console.conftest import CHIEF, OPERATOR, ServiceHarness
from tests.browser.console.hands import Mouse
from tests.browser.console_client import enter

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def refuse_repetition(message: bytes, attempts: int) -> bytes:
    """Reply as a receiver that knows each MSH-10 once (table 0357: duplicate key)."""
    if not attempts:
        return accept(message, attempts)
    return frame(
        b"MSH|^~\\&|HIS|H|||20260302||ACK|1|T|2.5.1\rMSA|AE|%s\rERR||MSH^1^10|205|E\r"
        % message.split(b"|")[9]
    )


def choose_probes(page: Page, *names: str) -> None:
    """Leave only these probes."""
    page.get_by_text(re.compile(r"^All \d+ probes$")).click()
    group = page.get_by_role("group", name="Probes")
    for box in group.get_by_role("checkbox").all():
        box.uncheck()
    for name in names:
        group.get_by_label(name, exact=True).check()


def test_an_odd_receiver_gets_settings_that_fit(service: ServiceHarness, page: Page) -> None:
    """
    From the menu of the connection to settings with which results arrive, in few clicks.

    Nothing is sent before the person says who agreed; the report is a file for the partner.
    """
    with sink(refuse_repetition) as his:
        enter(page, service, CHIEF, "connections/destination/ris")
        page.get_by_role("button", name="More actions").click()
        page.get_by_role("menuitem", name="Examine the partner").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Examine")
        expect(page.get_by_label("Receiver")).to_have_value("ris")
        page.get_by_label("Receiver").select_option("another address …")
        page.get_by_label("Host and port").fill(f"127.0.0.1:{his.port}")
        choose_probes(page, "connection and certificate", "a result", "the same message twice")
        start = page.get_by_role("button", name="Start …")
        expect(start).to_be_disabled()
        page.get_by_label("Who at the partner agreed").fill("Ola at HIS")
        start.click()
        question = page.get_by_role("alertdialog")
        expect(question).to_contain_text(f"127.0.0.1:{his.port}")
        assert his.received == []
        question.get_by_role("button", name="Send test messages").click()
        checks = page.get_by_role("list", name="Checks")
        expect(checks.get_by_role("listitem")).to_have_count(3)
        expect(checks).to_contain_text("AA, then AE 205")
        expect(checks).to_contain_text("Expected: the same code twice")
        expect(page.get_by_text("1 fault").first).to_be_visible()
        assert violations(page) == []
        for name, start_of in (("HTML", b"<!doctype html>"), ("PDF", b"%PDF-")):
            with page.expect_download() as download:
                page.get_by_role("button", name=f"Report as {name}").click()
            assert download.value.path().read_bytes().startswith(start_of)
        earlier = page.get_by_role("grid", name="Earlier examinations")
        expect(earlier.get_by_role("row").filter(has_text=str(his.port))).to_contain_text("2 ok")
        proposed = page.get_by_role("region", name="Settings that fit")
        expect(proposed).to_contain_text('replies {} → {"AE 205" = "delivered"}')
        page.get_by_role("button", name="Use settings that fit …").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("New destination")
        expect(page.get_by_label("Host and port")).to_have_value(f"127.0.0.1:{his.port}")
        expect(page.locator("form")).to_contain_text("AE 205 = delivered")


MOST_CLICKS = 15


MOST_BYTES = 100_000


def refuse_repetition_and_size(message: bytes, attempts: int) -> bytes:
    """Reply as a receiver that also refuses messages with a PDF."""
    return refuse_repetition(message, 1 if len(message) > MOST_BYTES else attempts)


def test_settings_of_a_destination_that_fit(service: ServiceHarness, page: Page) -> None:
    """The task: from the connection of an odd receiver to settings with which results arrive."""
    answer, hands = service.ris.answer, Mouse(page)
    enter(page, service, CHIEF, "connections/destination/ris")
    service.ris.answer = refuse_repetition_and_size
    try:
        hands.click(page.get_by_role("button", name="More actions"))
        hands.click(page.get_by_role("menuitem", name="Examine the partner"))
        expect(page.get_by_label("Receiver")).to_have_value("ris")
        # The idle minute of all probes is not part.
        choose_probes(page, "the same message twice", "size of a message")
        hands.write(page.get_by_label("Who at the partner agreed"), "Ola at RIS")
        hands.click(page.get_by_role("button", name="Start …"))
        question = page.get_by_role("alertdialog")
        hands.click(question.get_by_role("button", name="Send test messages"))
        hands.click(page.get_by_role("button", name="Use settings that fit …"))
    finally:
        service.ris.answer = answer
    expect(page.get_by_role("tab", name="Settings")).to_have_attribute("aria-selected", "true")
    for name, after in (("Reply handling", "AE 205 = delivered"), ("Content", "text")):
        change = page.get_by_role("term").filter(has_text=name).locator("xpath=..")
        expect(change).to_contain_text(after)
    hands.write(page.get_by_label("Reason for the audit trail"), "refuses repetitions")
    hands.click(page.get_by_role("button", name="Save and activate"))
    expect(page.get_by_text("ris is active on all nodes within 2 seconds.")).to_be_visible()
    settings = service.call(CHIEF, "GET", "connections/destination/ris").json()
    assert settings["table"]["replies"] == {"AE 205": "delivered"}
    assert settings["table"]["content"] == ["text"]
    assert hands.clicks <= MOST_CLICKS


def test_a_sender_is_examined(service: ServiceHarness, page: Page) -> None:
    """The page shows where to send to, then what the sender does; Stop closes the port."""
    port = free_port()
    enter(page, service, CHIEF, "connections/listener/orders")
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("menuitem", name="Examine the partner").click()
    page.get_by_label("Port that opens").fill(str(port))
    page.get_by_label("Who at the partner agreed").fill("Rita at RIS")
    page.get_by_role("button", name="Start …").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Open the port").click()
    expect(page.get_by_text("Let the partner send test messages to")).to_contain_text(f":{port}")
    assert violations(page) == []
    with Sender(port) as sender:
        sender.ask(order(1))
        sender.ask(order(2))
        checks = page.get_by_role("list", name="Checks")
        expect(checks.get_by_role("listitem").first).to_contain_text("goes on")
        page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("The examination was stopped.")).to_be_visible()


def test_who_may_not_connect_may_not_examine(service: ServiceHarness, page: Page) -> None:
    """Neither page nor menu is for an operator."""
    enter(page, service, OPERATOR, "examine")
    expect(page.get_by_text("You do not have permission")).to_be_visible()
    page.goto(f"{service.house.url}/console/connections/destination/ris")
    expect(page.get_by_role("tab", name="Specification")).to_be_visible()
    expect(page.get_by_role("button", name="More actions")).to_have_count(0)
    expect(page.get_by_role("link", name="Examine")).to_have_count(0)


def test_a_refused_address(service: ServiceHarness, page: Page) -> None:
    """The answer of the service is at the form, which keeps what was typed."""
    enter(page, service, CHIEF, "examine?destination=")
    page.get_by_label("Host and port").fill("169.254.169.254:80")
    page.get_by_label("Who at the partner agreed").fill("nobody")
    page.get_by_role("button", name="Start …").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Send test messages").click()
    expect(page.get_by_text("only bridge.toml can name link-local")).to_be_visible()
    expect(page.get_by_label("Host and port")).to_have_value("169.254.169.254:80")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_violations(service: ServiceHarness, page: Page, theme: str) -> None:
    """The question fits a phone in both themes, and is worked by keyboard."""
    page.set_viewport_size({"width": 390, "height": 844})
    enter(page, service, CHIEF, "examine")
    agreed = page.get_by_label("Who at the partner agreed")
    agreed.focus()
    page.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
    page.keyboard.type("Ola")
    page.keyboard.press("Enter")
    question = page.get_by_role("alertdialog")
    expect(question).to_be_visible()
    assert violations(page) == []
    page.keyboard.press("Escape")
    expect(question).to_have_count(0)
    assert violations(page) == []
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
