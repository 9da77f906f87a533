"""The frame of the console: navigation, search, palette, keys, addresses, theme, drawer."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import violations
from tests.browser.console.conftest import CHIEF, OPERATOR, VIEWER, ServiceHarness
from tests.browser.console_client import enter

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", "overview"),
        ("dashboard", "overview"),
        ("parked", "attention"),
        ("find", "orders"),
        ("worklist", "orders?list=unread"),
        ("channels", "connections"),
        ("deeds", "audit"),
    ],
)
def test_an_old_address_leads_to_its_page(
    service: ServiceHarness, page: Page, old: str, new: str
) -> None:
    enter(page, service, CHIEF, old)
    expect(page).to_have_url(f"{service.house.url}/console/{new}")


def test_pages_are_reached_by_keys_and_back(service: ServiceHarness, page: Page) -> None:
    """`g` and a letter open a page; Back returns; letters in fields do nothing."""
    enter(page, service, CHIEF, "overview")
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_have_text("Overview")
    expect(page.get_by_role("link", name="Messages")).to_be_visible()  # the account is known
    page.keyboard.press("g")
    page.keyboard.press("m")
    expect(heading).to_have_text("Messages")
    expect(page).to_have_title("Messages · Report Bridge")
    page.go_back()
    expect(heading).to_have_text("Overview")
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    expect(keys).to_contain_text("Needs attention")
    assert violations(page) == []
    page.keyboard.press("Escape")
    expect(keys).to_have_count(0)
    page.keyboard.press("g")
    page.keyboard.press("m")
    page.keyboard.press("/")
    page.get_by_role("combobox", name="Search").press_sequentially("g c")
    expect(heading).to_have_text("Messages")


def test_a_dialog_keeps_the_focus(service: ServiceHarness, page: Page) -> None:
    """Tab goes round in it, the page behind it is inert, and the focus returns at its end."""
    enter(page, service, OPERATOR, "messages")
    grid = page.get_by_role("grid", name="Messages")
    grid.focus()
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    expect(keys).to_be_focused()
    for pressed in (*["Tab"] * 20, *["Shift+Tab"] * 20):
        page.keyboard.press(pressed)
        assert page.evaluate("document.activeElement.closest('[role=dialog]') !== null")
    expect(page.locator("main [inert]").first).to_be_attached()
    page.keyboard.press("Escape")
    expect(keys).to_have_count(0)
    expect(page.locator("[inert]")).to_have_count(0)
    expect(grid).to_be_focused()


def test_a_number_is_searched_from_any_page(service: ServiceHarness, page: Page) -> None:
    """`/`, an accession and Enter show its order; the number is in no address and no title."""
    enter(page, service, OPERATOR, "connections")
    expect(page.get_by_role("grid", name="Connections")).to_be_visible()
    page.keyboard.press("/")
    search = page.get_by_role("combobox", name="Search")
    expect(search).to_be_focused()
    assert violations(page) == []
    search.fill("A7001")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Order A7001")
    assert "A7001" not in page.url + page.title()


def test_a_search_finds_nothing_in_words(service: ServiceHarness, page: Page) -> None:
    enter(page, service, OPERATOR, "overview")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("combobox", name="Search").fill("Z999999")
    expect(page.get_by_text("Nothing has the number “Z999999”.")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Search")).to_be_focused()


def test_the_palette_opens_pages_and_connections(service: ServiceHarness, page: Page) -> None:
    """Ctrl-K finds a page by another word, and a connection by its name."""
    enter(page, service, CHIEF, "overview")
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog", name="Commands")
    palette.get_by_role("combobox").fill("transformer")
    expect(palette.get_by_role("option").first).to_contain_text("Mappings")
    palette.get_by_role("combobox").fill("stray")
    expect(palette.get_by_role("option", name="stray").first).to_contain_text("listener")
    assert violations(page) == []
    palette.get_by_role("combobox").fill("attention")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Needs attention")


def test_a_role_sees_its_pages(service: ServiceHarness, page: Page) -> None:
    """Navigation and palette have the pages that the role permits; another address says why not."""
    enter(page, service, VIEWER, "audit")
    expect(page.get_by_text("You do not have permission to see this.")).to_be_visible()
    navigation = page.get_by_role("navigation")
    expect(navigation.get_by_role("link", name="Messages")).to_be_visible()
    expect(navigation.get_by_role("link", name="Sites")).to_have_count(0)
    page.keyboard.press("Control+k")
    page.get_by_role("dialog", name="Commands").get_by_role("combobox").fill("sites")
    expect(page.get_by_role("option", name="Sites")).to_have_count(0)


def test_choices_are_kept(service: ServiceHarness, page: Page) -> None:
    """The navigation stays collapsed, the density and the theme stay chosen after a reload."""
    enter(page, service, OPERATOR, "overview")
    page.get_by_role("button", name="Collapse").click()
    page.get_by_role("button", name="Density: compact").click()
    with page.expect_response("**/reporting/api/account"):
        page.get_by_role("button", name="Theme: as the system").click()
    page.reload()
    expect(page.get_by_role("button", name="Expand the navigation")).to_be_visible()
    expect(page.get_by_role("button", name="Density: comfortable")).to_be_visible()
    expect(page.get_by_role("button", name="Theme: light")).to_be_visible()
    assert violations(page) == []


def test_a_phone_has_a_drawer(service: ServiceHarness, page: Page) -> None:
    """At 390 px the menu opens a drawer that traps the focus; a page or Escape closes it."""
    page.set_viewport_size({"width": 390, "height": 844})
    enter(page, service, OPERATOR, "messages")
    expect(page.get_by_role("grid", name="Messages")).to_be_visible()
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("button", name="Menu").click()
    drawer = page.get_by_role("dialog", name="Console pages")
    expect(drawer.get_by_role("link", name="Deliveries")).to_be_visible()
    assert violations(page) == []
    page.keyboard.press("Escape")
    expect(drawer).to_have_count(0)
    page.get_by_role("button", name="Menu").click()
    drawer.get_by_role("link", name="Deliveries").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Deliveries")
    expect(drawer).to_have_count(0)
