"""Whose report it is, as the page shows it: in any width, to whoever is asked, in any script."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.editor.writing import opened, typed
from tests.browser.reading_room import OTHER, ReadingRoom

pytestmark = [pytest.mark.browser, pytest.mark.slow]

TAGS = {
    "PatientName": "EXAMPLE^PERSON",
    "PatientBirthDate": "19800515",
    "StudyDate": "20240514",
    "Modality": "CT",
    "StudyDescription": "CT CHEST",
}


def test_the_header_names_patient_age_and_accession_in_any_width(
    room: ReadingRoom, page: Page
) -> None:
    """The age is that of the study's day, computed from the birth date; a panel is narrow."""
    page.set_viewport_size({"width": 420, "height": 800})
    opened(page, room.launch("ACC-77", tags=TAGS))
    expect(page.locator("#accession")).to_be_visible()
    assert page.inner_text("#accession") == "ACC-77"
    expect(page.locator("header")).to_contain_text("43y")
    expect(page.locator("#patient")).to_have_text("EXAMPLE, PERSON")


def test_the_question_before_a_transfer_names_the_patient_and_the_order(
    room: ReadingRoom, page: Page
) -> None:
    """Nobody takes a draft over without seeing whose it is."""
    opened(page, room.launch("ACC-77", tags=TAGS))
    page.goto(room.launch("ACC-77", who=OTHER))
    prompt = page.get_by_role("alertdialog")
    expect(prompt).to_contain_text("EXAMPLE, PERSON")
    expect(prompt).to_contain_text("ACC-77")
    expect(prompt).to_contain_text("CT CHEST")


def test_each_paragraph_has_the_direction_of_its_text(room: ReadingRoom, page: Page) -> None:
    """dir=auto: Hebrew runs from the right beside English, in the editor."""
    opened(page, room.launch())
    typed(page, "Lungs clear.")
    page.keyboard.press("Enter")
    page.keyboard.type("הריאות תקינות.")
    directions = page.eval_on_selector_all(
        "#text > p", "all => all.map((each) => getComputedStyle(each).direction)"
    )
    assert directions == ["ltr", "rtl"]


def test_the_bare_address_leads_to_the_worklist(room: ReadingRoom, page: Page) -> None:
    """Whoever opens the address of the service is asked to sign in, not shown JSON."""
    page.goto(room.url + "/")
    expect(page.locator("input[type=password]")).to_be_visible()
