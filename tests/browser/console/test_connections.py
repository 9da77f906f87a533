"""The connections of the console in Chromium: tests of a connection, and failed TLS handshakes."""

import socket
from contextlib import suppress

import pytest
from playwright.sync_api import Page, expect

from tests.browser.console.conftest import OPERATOR, ServiceHarness
from tests.browser.console_client import enter
from tests.eventually import PATIENCE, eventually

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_a_listener_with_mutual_tls_is_tested(service: ServiceHarness, page: Page) -> None:
    """Its steps are shown, it wants a client certificate, and all buttons stay enabled."""
    enter(page, service, OPERATOR, "channels")
    button = page.get_by_role("button", name="Test mutual")
    button.click()
    table = page.get_by_role("table", name="Listeners")
    expect(table).to_contain_text("it requires a client certificate")
    expect(table.get_by_text("failed", exact=True)).to_have_count(0)
    expect(button).to_be_enabled()
    expect(page.get_by_role("button", name="Test stray")).to_be_enabled()


def test_failed_handshakes_are_shown(service: ServiceHarness, page: Page) -> None:
    """A sender without TLS is shown with its address and the reason."""
    with (
        suppress(OSError),
        socket.create_connection(("127.0.0.1", service.mutual_port), timeout=PATIENCE) as wire,
    ):
        wire.sendall(b"\x0bMSH|\x1c\r")
        wire.recv(100)

    def is_stored() -> bool:
        listed = service.call(OPERATOR, "GET", "channels").json()["listeners"]
        (mutual,) = (each for each in listed if each["name"] == "mutual")
        return any("plain text" in each["reason"] for each in mutual["handshake_failures"])

    eventually(is_stored)
    enter(page, service, OPERATOR, "channels")
    table = page.get_by_role("table", name="Listeners")
    expect(table).to_contain_text("the peer does not speak TLS")
    expect(table).to_contain_text("127.0.0.1")
