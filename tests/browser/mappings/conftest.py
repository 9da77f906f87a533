"""
One installation with mapping authors for the tests of the mapping pages.

It has received three orders.
"""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, Playwright, expect

from tests.acceptance.house import House
from tests.acceptance.orders import order
from tests.acceptance.wire import Sender
from tests.browser import console_client
from tests.browser.checked_pages import PROCESS_PER_SITE, launched, window
from tests.browser.console_client import ConsoleClient
from tests.browser.signing_in import PASSWORD
from tests.enrolment import open_link

ADMINISTRATOR, OTHER_AUTHOR, RESTRICTED_AUTHOR = (
    "mara@example.org",
    "rita@example.org",
    "otto@example.org",
)
NAMES = {ADMINISTRATOR: "Mara Keeper", OTHER_AUTHOR: "Rita Rival", RESTRICTED_AUTHOR: "Otto Author"}


class MappingConsole(ConsoleClient):
    def draft(self, email: str, name: str, **files: str) -> httpx.Response:
        """Save a draft; `files` are texts by file name without suffix."""
        about = self.call(email, "GET", f"mappings/{name}")
        known = about.json() if about.status_code == 200 else {}
        own, active = known.get("draft") or {}, known.get("in_force") or {}
        body = {
            "files": {f"{file}.yaml": text for file, text in files.items()},
            "begun_on": own.get("begun_on", active.get("version", "")),
            "revision": own.get("revision", 0),
        }
        return self.call(email, "PUT", f"mappings/{name}/draft", body)

    def activate(self, email: str, name: str, text: str, *listeners: str) -> httpx.Response:
        saved = self.draft(email, name, **{name: text}).json()
        body = {"reason": "a test", "listeners": list(listeners)}
        known = {key: saved[key] for key in ("begun_on", "revision")}
        return self.call(email, "POST", f"mappings/{name}/activate", body | known)


def add_authors(house: House) -> None:
    roles = {
        ADMINISTRATOR: ("--role", "system-administrator", "--bodies"),
        OTHER_AUTHOR: ("--role", "mapping-author", "--bodies"),
        RESTRICTED_AUTHOR: ("--role", "mapping-author"),
    }
    for email, name in NAMES.items():
        house.bridge("user", "add", email, "--name", name, "--site", "SITE1")
        printed = house.bridge("console", "grant", email, *roles[email])
        open_link(printed.split()[-1], house.url, PASSWORD)


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MappingConsole]:
    house = House(Path(tmp_path_factory.mktemp("mappings")) / "home")
    house.make()
    house.start()
    try:
        add_authors(house)
        with Sender(house.mllp_port) as sender:
            for number in (7001, 7002, 7003):
                sender.ask(order(number, accession=f"A{number}"))
        house.settle()
        yield MappingConsole(house)
    finally:
        house.stop()
        house.kill()


@pytest.fixture(scope="module")
def chromium(driver: Playwright) -> Iterator[Browser]:
    """One browser for a module; the pages of a profile share a process."""
    with launched(driver, PROCESS_PER_SITE) as browser:
        yield browser


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A page in a fresh profile; errors in its scripts fail the test."""
    with window(chromium, locale="en-GB") as page:
        yield page


def enter(page: Page, console: MappingConsole, email: str, path: str = "mappings") -> None:
    console_client.enter(page, console, email, path)
    page.get_by_role("link", name="Mappings").first.wait_for()


def editor(page: Page, file: str) -> None:
    page.get_by_role("textbox", name=f"Text of {file}").click()
    page.keyboard.press("Control+Home")


def lines(page: Page) -> Locator:
    """The visible lines of the editor."""
    return page.locator(".editor [data-line]")


def click_line(page: Page, begins: str) -> None:
    """Click a line of the editor: the text field below it takes the press."""
    line = lines(page).filter(has_text=begins).first
    line.scroll_into_view_if_needed()
    line.click(force=True)


def rewrite(page: Page, begins: str, text: str) -> None:
    click_line(page, begins)
    page.keyboard.press("Control+Enter")  # a line below
    page.keyboard.type(text)
    page.keyboard.press("Escape")
    click_line(page, begins)
    page.keyboard.press("Control+Shift+K")


def saved(page: Page, verdict: str = "No errors") -> None:
    """Wait until the draft is saved and has a verdict."""
    expect(page.get_by_role("main").get_by_text("Draft saved")).to_contain_text("Changed files: 1.")
    expect(page.get_by_role("main").get_by_text("Draft saved")).to_contain_text(verdict)


def fits(page: Page) -> bool:
    """Wait until the page is as wide and high as the window."""
    page.wait_for_function(
        "() => document.documentElement.scrollWidth <= innerWidth"
        " && document.documentElement.scrollHeight <= innerHeight"
    )
    return True
