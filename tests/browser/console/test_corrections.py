"""Console pages in Chromium: replay, sites, roles, audit trail, live updates, sign-in."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.axe import violations
from tests.browser.checked_pages import window
from tests.browser.console.conftest import CHIEF, ServiceHarness, without_stream
from tests.browser.console_client import enter
from tests.browser.signing_in import PASSWORD
from tests.enrolment import open_link

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A page in a fresh profile; errors in its scripts fail the test."""
    with window(chromium) as page:
        page.on("dialog", lambda dialog: dialog.accept())
        yield page


def test_a_site_is_added_and_its_parts_are_changed(service: ServiceHarness, page: Page) -> None:
    """The console has the forms of the reporting app; a token is shown once."""
    without_stream(page)
    enter(page, service, CHIEF, "sites")
    page.get_by_role("button", name="Add site").click()
    dialog = page.get_by_role("dialog", name="Add a site")
    dialog.get_by_label("SiteID").fill("NORTH")
    dialog.get_by_label("Name").fill("North clinic")
    assert violations(page) == []
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("NORTH")
    page.get_by_label("Sign delay").fill("45")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status").filter(has_text="Saved")).to_be_visible()
    page.get_by_role("tab", name="Users").click()
    assert page.url.endswith("/sites/NORTH/users")
    page.get_by_label("E-mail").fill("nora@north.test")
    page.get_by_label("Name").fill("Nora")
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_role("cell", name="nora@north.test", exact=True)).to_be_visible()
    page.get_by_role("tab", name="Tokens").click()
    page.get_by_label("E-mail of the owner").fill("nora@north.test")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_text("It is shown only once")).to_be_visible()
    for part in ("Prelim groups", "Templates", "Billing codes"):
        page.get_by_role("tab", name=part).click()
        page.locator(".report-forms").get_by_role("heading").first.wait_for()
        assert (part, violations(page)) == (part, [])


def test_a_role_limits_its_user_to_a_site(service: ServiceHarness, page: Page) -> None:
    """A user with a role at one site sees no listener and no message of another site."""
    enter(page, service, CHIEF, "access")
    page.get_by_role("button", name="Give a role").click()
    dialog = page.get_by_role("dialog", name="Give a role")
    dialog.get_by_label("E-mail").fill("sven@site1.test")
    dialog.get_by_role("radio", name="Site administrator").check()
    dialog.get_by_role("button", name="Assign role").click()
    expect(dialog.get_by_text("Choose at least one site.")).to_be_visible()
    dialog.get_by_role("button", name="Only these sites").click()
    page.get_by_role("option", name="SITE1").click()
    page.keyboard.press("Escape")
    expect(dialog).to_contain_text("Site administrator for SITE1, without message content.")
    assert violations(page) == []
    dialog.get_by_role("button", name="Assign role").click()
    shown = page.get_by_role("dialog", name="Enrolment link for sven@site1.test")
    link = shown.get_by_label("Enrolment link for sven@site1.test", exact=True).input_value()
    assert violations(page) == []
    shown.get_by_role("button", name="I have copied it").click()
    row = page.get_by_role("row", name="sven@site1.test")
    expect(row).to_contain_text("SITE1")
    open_link(link, service.house.url, PASSWORD)
    page.context.clear_cookies()
    enter(page, service, "sven@site1.test", "channels")
    listeners = page.get_by_role("grid", name="Connections")
    expect(listeners).to_contain_text("orders")
    expect(listeners).not_to_contain_text("stray")
    page.get_by_role("link", name="Messages").click()
    found = page.get_by_role("grid", name="Messages")
    expect(found).to_contain_text("orders")
    expect(found).not_to_contain_text("stray")
    page.context.clear_cookies()
    enter(page, service, CHIEF, "access")
    page.get_by_role("button", name="Actions for sven@site1.test").click()
    page.get_by_role("menuitem", name="Remove the role").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Remove the role").click()
    expect(row).to_have_count(0)


def test_sign_in_with_the_hospital_account(service: ServiceHarness, page: Page) -> None:
    """The identity provider signs the user in, with the role of the e-mail address."""
    page.goto(f"{service.house.url}/console")
    page.get_by_role("link", name="Hospital account").click()
    page.wait_for_url("**/console/overview")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    expect(page.get_by_role("button", name="Account of Vera")).to_be_visible()
