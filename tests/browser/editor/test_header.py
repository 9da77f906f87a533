"""The header of a report: patient, age and accession, in every width and direction."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.editor.report_page import opened, typed
from tests.browser.engine_server import OTHER, EngineServer

pytestmark = [pytest.mark.browser, pytest.mark.slow]

TAGS = {
    "PatientName": "EXAMPLE^PERSON",
    "PatientBirthDate": "19800515",
    "StudyDate": "20240514",
    "Modality": "CT",
    "StudyDescription": "CT CHEST",
}


def test_the_header_names_patient_age_and_accession(engine: EngineServer, page: Page) -> None:
    """A narrow panel shows them; the age is that on the day of the study."""
    page.set_viewport_size({"width": 420, "height": 800})
    opened(page, engine.launch("ACC-77", tags=TAGS))
    expect(page.locator("#accession")).to_be_visible()
    assert page.inner_text("#accession") == "ACC-77"
    expect(page.locator("header")).to_contain_text("43y")
    expect(page.locator("#patient")).to_have_text("EXAMPLE, PERSON")


def test_the_transfer_prompt_names_the_patient_and_the_order(
    engine: EngineServer, page: Page
) -> None:
    """The prompt before a transfer of ownership names patient, accession and study."""
    opened(page, engine.launch("ACC-77", tags=TAGS))
    page.goto(engine.launch("ACC-77", email=OTHER))
    prompt = page.get_by_role("alertdialog")
    expect(prompt).to_contain_text("EXAMPLE, PERSON")
    expect(prompt).to_contain_text("ACC-77")
    expect(prompt).to_contain_text("CT CHEST")


def test_each_paragraph_has_the_direction_of_its_text(engine: EngineServer, page: Page) -> None:
    """With dir=auto, Hebrew is right-to-left beside English in the editor."""
    opened(page, engine.launch())
    typed(page, "Lungs clear.")
    page.keyboard.press("Enter")
    page.keyboard.type("הריאות תקינות.")
    directions = page.eval_on_selector_all(
        "#text > p", "all => all.map((each) => getComputedStyle(each).direction)"
    )
    assert directions == ["ltr", "rtl"]


def test_the_root_address_leads_to_the_login(engine: EngineServer, page: Page) -> None:
    page.goto(engine.url + "/")
    expect(page.locator("input[type=password]")).to_be_visible()
