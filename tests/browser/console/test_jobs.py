"""Actions on many rows in Chromium: confirmed with a reason, run in the background, reported."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import violations
from tests.browser.console.conftest import OPERATOR, ServiceHarness
from tests.browser.console_client import enter

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_all_messages_that_match_are_replayed(service: ServiceHarness, page: Page) -> None:
    """A reason is needed; the job goes on while the person is elsewhere; each row has a result."""
    enter(page, service, OPERATOR, "messages?state=parked&channel=stray")
    grid = page.get_by_role("grid", name="Messages", exact=True)
    expect(grid.get_by_role("row").filter(has_text="A7003")).to_be_visible()
    grid.focus()
    page.keyboard.press("Control+a")
    bar = page.get_by_role("group", name="Selection")
    expect(bar).to_contain_text("selected")
    assert violations(page) == []
    bar.get_by_role("button", name="Replay").click()
    dialog = page.get_by_role("alertdialog")
    start = dialog.get_by_role("button", name="Replay")
    expect(start).to_be_disabled()
    dialog.get_by_label("Reason").fill("the site was added")
    start.click()
    expect(page.get_by_role("status").filter(has_text="started")).to_be_visible()
    page.goto(f"{service.house.url}/console/jobs")
    jobs = page.get_by_role("grid", name="Background jobs")
    expect(jobs.get_by_role("row").nth(1)).to_contain_text("done")
    assert violations(page) == []
    jobs.get_by_role("row").nth(1).click()
    results = page.get_by_role("table", name="Results")
    expect(results.get_by_role("row").nth(1)).to_contain_text("done")
    expect(page.get_by_text("the site was added")).to_be_visible()
    assert violations(page) == []
    results.get_by_role("link").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Message")


def test_a_table_is_exported(service: ServiceHarness, page: Page) -> None:
    """The file has the chosen columns, and is downloaded from the job's page."""
    enter(page, service, OPERATOR, "messages?state=done")
    grid = page.get_by_role("grid", name="Messages", exact=True)
    expect(grid.get_by_role("row").filter(has_text="A7001")).to_be_visible()
    page.get_by_role("button", name="Export").click()
    page.get_by_role("menuitem", name="Table of the columns (CSV)").click()
    dialog = page.get_by_role("alertdialog")
    dialog.get_by_label("Reason").fill("statistics")
    dialog.get_by_role("button", name="Export").click()
    page.get_by_role("status").get_by_role("button", name="Show").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    text = download.value.path().read_text("utf-8-sig")
    assert text.startswith("time,channel,type,name,accession")
    assert "A7001" in text
