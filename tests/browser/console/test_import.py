"""A channel of Mirth is dropped on the page Import, judged, and imported."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.bridge.admin.mirth.exports import (
    channel,
    destination,
    mapper,
    place,
    rule,
    script,
)
from tests.browser.axe import violations
from tests.browser.console.conftest import CHIEF, ServiceHarness
from tests.browser.console_client import enter

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def export(file: Path) -> Path:
    steps = [
        mapper("mrn", place("PID-2.1")),
        mapper("ward", place("PV1-3.1")),
        script(f"// sex\nvar sex = {place('PID-8.1')};\nif (sex == 'W') sex = 'F';", "fix sex"),
    ]
    rules = [
        rule(place("MSH-9.1"), "EQUALS", "'ORM'"),
        rule(place("OBR-24.1"), "EQUALS", "'CT'", "'MR'"),
    ]
    document = channel(
        name="Mirth orders", steps=steps, rules=rules, destinations=[destination("To HIS")]
    )
    file.write_bytes(document.replace(b"<port>6661", b"<port>16661"))
    return file


def test_a_channel_is_imported(service: ServiceHarness, page: Page, tmp_path: Path) -> None:
    """The report names the lines; the proposal is reviewed, and its connections are disabled."""
    enter(page, service, CHIEF, "import")
    page.get_by_label("Site of the orders").select_option("SITE1")
    page.locator("input[type=file]").set_input_files(export(tmp_path / "orders.xml"))
    expect(page.get_by_text("1 not converted")).to_be_visible()
    expect(page.get_by_text("JavaScript step “fix sex”")).to_be_visible()
    expect(page.get_by_text("line 30: sex is PID-8.1")).to_be_visible()
    marked = page.locator(".source .marked")
    expect(marked).to_contain_text("JavaScriptStep")
    assert violations(page) == []
    page.get_by_role("tab", name=re.compile("^Converted")).click()
    line = page.get_by_role("button", name="line 27").first
    line.click()
    expect(line).to_have_attribute("aria-pressed", "true")
    expect(marked).to_contain_text("ward")
    expect(page.get_by_role("group", name="mappings/mirth-orders.yaml")).to_contain_text(
        "PatientMRN: {from: [PID-2.1,"
    )
    page.get_by_role("button", name="Review and import").click()
    expect(page.get_by_role("switch", name="Leave new connections disabled")).to_have_attribute(
        "aria-checked", "true"
    )
    assert violations(page) == []
    page.get_by_label("Reason for the audit trail").fill("moved from Mirth")
    page.get_by_role("button", name="Import", exact=True).click()
    expect(page.get_by_text("Imported: mirth-orders, to-his.")).to_be_visible()
    assert violations(page) == []
    page.get_by_role("link", name="Listener mirth-orders").click()
    expect(page.get_by_role("tab", name="Settings")).to_have_attribute("aria-selected", "true")
    listed = service.call(CHIEF, "GET", "channels").json()
    (listener,) = [entry for entry in listed["listeners"] if entry["name"] == "mirth-orders"]
    assert listener["address"] == "0.0.0.0:16661"


def test_a_file_that_is_no_export(service: ServiceHarness, page: Page, tmp_path: Path) -> None:
    """The page says what is wrong and where."""
    file = tmp_path / "page.xml"
    file.write_text("<html>\n<body/>\n</html>")
    enter(page, service, CHIEF, "import")
    page.locator("input[type=file]").set_input_files(file)
    expect(page.get_by_role("alert")).to_contain_text(
        "line 1: the file is not an export of channels: it begins with <html>"
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_violations(service: ServiceHarness, page: Page, tmp_path: Path, theme: str) -> None:
    """The page with a result fits a phone in both themes."""
    page.set_viewport_size({"width": 390, "height": 844})
    enter(page, service, CHIEF, "import")
    page.get_by_label("Site of the orders").select_option("SITE1")
    page.locator("input[type=file]").set_input_files(export(tmp_path / "orders.xml"))
    expect(page.get_by_text("1 not converted")).to_be_visible()
    page.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
    assert violations(page) == []
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
