"""The start page: an installation without messages, set up step by step in Chromium."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.acceptance.house import House, bridge
from tests.acceptance.orders import order
from tests.acceptance.wire import Sender, Sink, sink
from tests.browser.axe import violations
from tests.browser.console.conftest import without_stream
from tests.browser.console_client import ConsoleClient, enter
from tests.browser.signing_in import PASSWORD
from tests.enrolment import open_link

pytestmark = [pytest.mark.browser, pytest.mark.slow]

CHIEF, RADIOLOGIST, VIEWER = "chen@site1.test", "rhea@site1.test", "vera@site1.test"
ROOT = Path(__file__).resolve().parents[3]
GUIDE = ROOT / "docs" / "guides" / "set-up.md"
TEXTS = ROOT / "web" / "src" / "console" / "texts"
CLICKS = """
window.clicks = Number(sessionStorage.getItem("clicks") ?? 0);
addEventListener("click", (event) => {
  if (event.isTrusted) sessionStorage.setItem("clicks", ++window.clicks);
}, true);
"""


@dataclass
class Installation(ConsoleClient):
    """An installation without messages, and the receiver of its results."""

    ris: Sink


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with a site and accounts, which the installations copy."""
    house = House(Path(tmp_path_factory.mktemp("prepared")) / "home")
    house.make()
    house.start()
    for email, role in ((CHIEF, "system-administrator"), (VIEWER, "viewer")):
        account = (email, "--name", email[:4].title(), "--site", "SITE1", "--console", role)
        bodies = ("--bodies",) if email == CHIEF else ()
        open_link(house.bridge("user", "add", *account, *bodies).split()[-1], house.url, PASSWORD)
    house.stop()
    return house.home


@contextmanager
def installed(prepared: Path, home: Path) -> Iterator[Installation]:
    with sink() as ris:
        house = House(home)
        house.destination("ris", ris.port)
        shutil.copytree(prepared, home)
        shutil.rmtree(home / "run", ignore_errors=True)
        house.configure()
        house.start()
        try:
            yield Installation(house, ris)
        finally:
            house.stop()
            house.kill()


@pytest.fixture
def empty(prepared: Path, tmp_path: Path) -> Iterator[Installation]:
    """A site, a listener, a destination and accounts, for a test that sets it up."""
    with installed(prepared, tmp_path / "home") as installation:
        yield installation


@pytest.fixture(scope="module")
def untouched(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """The same for tests that change nothing."""
    home = Path(tmp_path_factory.mktemp("untouched")) / "home"
    with installed(prepared, home) as installation:
        yield installation


def step(page: Page, name: str) -> Locator:
    return page.get_by_role("listitem", name=re.compile(name))


def sign_in(page: Page, installation: Installation, email: str, path: str = "") -> None:
    page.goto(f"{installation.house.url}{path}")
    page.get_by_label("E-mail").fill(email)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_label("Password", exact=True).press("Enter")


def test_the_first_order_is_mapped(empty: Installation, page: Page) -> None:
    """From `/` and the sign-in to what was understood of the first order, in six clicks at most."""
    page.add_init_script(CLICKS)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    sign_in(page, empty, CHIEF, "/")
    expect(page).to_have_url(f"{empty.house.url}/console/start")
    expect(step(page, "Create a site")).to_contain_text("SITE1")
    sender = step(page, "Connect a sender")
    expect(sender).to_contain_text("Waiting for the first message")
    sender.get_by_role("button", name="Copy the settings of orders").click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert f"Port: {empty.house.mllp_port}" in copied
    expect(page.get_by_role("navigation").get_by_role("link", name="Set up")).to_be_visible()
    with Sender(empty.house.mllp_port) as wire:
        wire.ask(order(81, accession="A81"))
    expect(sender).to_contain_text("applied")
    expect(sender.get_by_role("link", name="accession A81")).to_be_visible()
    assert "DOE" not in page.locator("body").inner_text()
    sender.get_by_role("link", name="See what was understood").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("ORM^O01")
    expect(page.locator("body")).to_contain_text("PatientMRN")
    assert 1 <= page.evaluate("window.clicks") <= 6


def test_every_step_is_done_on_the_page(empty: Installation, page: Page) -> None:
    """Sample order, sample result and a reader who enrols; then the page leaves the navigation."""
    enter(page, empty, CHIEF, "start")
    sender, receiver = step(page, "Connect a sender"), step(page, "Connect a receiver")
    sender.get_by_role("button", name="Send a sample order").click()
    expect(sender.get_by_role("link", name="See what was understood")).to_be_visible()
    expect(sender).to_contain_text("SAMPLE/CONSOLE")
    receiver.get_by_role("button", name="Test ris").click()
    expect(receiver.get_by_role("list", name="Test of ris")).to_contain_text("Connection opened")
    receiver.get_by_role("button", name="Send a sample result to ris").click()
    expect(receiver.get_by_role("status")).to_contain_text("accepted with AA")
    expect(receiver).to_contain_text("accepts messages")
    assert b"|T|" in empty.ris.wait(1)[0]
    reader = step(page, "Invite a reader")
    reader.get_by_label("E-mail").fill(RADIOLOGIST)
    reader.get_by_label("Name below reports").fill("Rhea Reader")
    reader.get_by_role("button", name="Invite", exact=True).click()
    link = reader.get_by_label("Enrolment link of Rhea Reader").input_value()
    expect(reader).to_contain_text("2 readers have not used the enrolment link yet.")
    expect(page.get_by_text("3 of 4 done")).to_be_visible()
    open_link(link, empty.house.url, PASSWORD)
    expect(page.get_by_text("This installation is set up.")).to_be_visible()
    expect(page.get_by_role("navigation").get_by_role("link", name="Set up")).to_have_count(0)
    page.context.clear_cookies()
    sign_in(page, empty, RADIOLOGIST, "/")
    expect(page).to_have_url(f"{empty.house.url}/reporting/worklist")
    page.goto(f"{empty.house.url}/console/")
    expect(page).to_have_url(f"{empty.house.url}/reporting/worklist")


@pytest.fixture
def siteless(tmp_path: Path) -> Iterator[Installation]:
    """What `bridge init` makes, and one account with a role in the console: the README's steps."""
    with sink() as ris:
        house = House(tmp_path / "home")
        bridge("init", str(house.home))
        house.configure()
        role = ("--role", "system-administrator", "--bodies", "--pending")
        link = house.bridge("console", "grant", CHIEF, *role).split()[-1]
        house.start()
        try:
            open_link(link, house.url, PASSWORD)
            yield Installation(house, ris)
        finally:
            house.stop()
            house.kill()


def test_the_first_site_is_created_on_the_page(siteless: Installation, page: Page) -> None:
    """An account on no site signs in, creates the first one, and its first order is applied."""
    sign_in(page, siteless, CHIEF, "/")
    expect(page).to_have_url(f"{siteless.house.url}/console/start")
    expect(page.get_by_text("0 of 4 done")).to_be_visible()
    assert violations(page) == []
    site, sender = step(page, "Create a site"), step(page, "Connect a sender")
    expect(site.get_by_label("SiteID")).to_have_value("SITE1")
    site.get_by_label("Name").fill("General hospital")
    site.get_by_label("Time zone").fill("Europe/Berlin")
    site.get_by_label("Time zone").press("Enter")
    expect(site).to_contain_text("SITE1 (General hospital, Europe/Berlin)")
    sender.get_by_role("button", name="Send a sample order").click()
    expect(sender.get_by_role("link", name="See what was understood")).to_be_visible()
    expect(page.get_by_text("2 of 4 done")).to_be_visible()


def test_a_site_and_a_receiver_are_added_in_place(empty: Installation, page: Page) -> None:
    """The listener is told the new site; a wrong address is refused beside its field."""
    enter(page, empty, CHIEF, "start")
    site = step(page, "Create a site")
    site.get_by_role("button", name="Show: Create a site").click()
    site.get_by_role("button", name="Create another site").click()
    site.get_by_label("SiteID").fill("NORTH")
    site.get_by_label("Name").fill("North clinic")
    site.get_by_label("Time zone").fill("Europe/Nowhere")
    expect(site).to_contain_text("Not a time zone")
    site.get_by_label("Time zone").fill("Europe/Berlin")
    site.get_by_label("Time zone").press("Enter")
    expect(site.get_by_role("list", name="Sites")).to_contain_text("Europe/Berlin")
    receiver = step(page, "Connect a receiver")
    receiver.get_by_role("button", name="Add another destination").click()
    receiver.get_by_label("Name").fill("street")
    receiver.get_by_label("Address").fill("nowhere")
    receiver.get_by_label("Address").press("Enter")
    expect(receiver.get_by_label("Address")).to_have_attribute("aria-invalid", "true")
    receiver.get_by_label("Address").fill(f"127.0.0.1:{empty.ris.port}")
    receiver.get_by_label("Address").press("Enter")
    expect(receiver.get_by_role("region", name="street")).to_be_visible()
    opening = step(page, "Connect a sender").get_by_role("button", name="Let other machines")
    opening.click()
    page.get_by_role("alertdialog").get_by_role("button", name="Let other machines").click()
    expect(opening).to_have_count(0)


def test_a_refused_first_message_shows_its_cause(empty: Installation, page: Page) -> None:
    enter(page, empty, CHIEF, "start")
    sender = step(page, "Connect a sender")
    expect(sender).to_contain_text("Waiting for the first message")
    with Sender(empty.house.mllp_port) as wire:
        wire.ask(order(82, accession="A82").replace(b"PID|", b"PIX|"))
    expect(sender.get_by_role("link", name="Look at the message")).to_be_visible()
    expect(sender.get_by_role("link", name="Make a definition")).to_be_visible()
    expect(page.get_by_text("1 of 4 done")).to_be_visible()


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_the_page_is_accessible_and_fits(untouched: Installation, page: Page, theme: str) -> None:
    """Axe finds nothing on the page with data and without; it fits a phone; keys open a step."""
    without_stream(page)
    page.route("**/console/api/first-steps", lambda route: route.abort())
    enter(page, untouched, CHIEF, "start")
    page.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
    expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
    assert violations(page) == []
    page.unroute("**/console/api/first-steps")
    page.get_by_role("button", name="Retry now").click()
    expect(step(page, "Connect a sender")).to_contain_text("Waiting for the first message")
    for width, height in ((1280, 720), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
    toggle = page.get_by_role("button", name="Hide: Connect a receiver")
    toggle.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Test ris")).to_be_hidden()


def test_who_does_not_set_up_gets_the_overview(untouched: Installation, page: Page) -> None:
    """A viewer of an empty installation comes to the overview, and finds no start page."""
    sign_in(page, untouched, VIEWER, "/")
    expect(page).to_have_url(f"{untouched.house.url}/console/overview")
    expect(page.get_by_role("navigation").get_by_role("link", name="Set up")).to_have_count(0)
    page.goto(f"{untouched.house.url}/console/start")
    expect(page.get_by_text("You do not have permission to see this.")).to_be_visible()


def test_the_guide_uses_the_texts_of_the_page() -> None:
    """Each button and page that the guide names exists in the console."""
    named = re.findall(r"\*\*(.+?)\*\*", GUIDE.read_text("utf-8"))
    known = "".join(file.read_text("utf-8") for file in TEXTS.glob("*.json"))
    assert len(named) > 8
    assert [item for item in named if f'"{item}"' not in known] == []


def test_skipping_leads_to_the_overview(untouched: Installation, page: Page) -> None:
    """The page stays in the navigation while steps are left."""
    enter(page, untouched, CHIEF, "")
    page.get_by_role("link", name="Skip for now").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    page.get_by_role("navigation").get_by_role("link", name="Set up").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Set up this installation")
