"""Writing aids in a real browser: brackets, macros, templates, checks, priors, files."""

import base64
import io

import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from tests.bridge.engine.documents.test_structured_report import (
    COMPREHENSIVE,
    file_of,
    item,
    number,
    report,
)
from tests.browser.reading_room import ReadingRoom

pytestmark = [pytest.mark.browser, pytest.mark.slow]

CHEST = {
    "type": "doc",
    "content": [
        {"type": "section", "title": "Findings"},
        {"type": "paragraph", "content": [{"type": "text", "text": "Lungs:"}]},
        {
            "type": "paragraph",
            "content": [
                {"type": "text", "text": "Heart: "},
                {"type": "field", "label": "normal / enlarged", "value": ""},
            ],
        },
        {"type": "section", "title": "Impression"},
        {"type": "paragraph", "content": [{"type": "field", "label": "impression", "value": ""}]},
    ],
}


def opened(page: Page, room: ReadingRoom, **launch: object) -> None:
    """Launch and open a report."""
    page.goto(room.launch(**launch))  # type: ignore[arg-type]
    page.wait_for_selector("#sign:visible")


def selected(page: Page) -> str:
    """Return what is selected."""
    text: str = page.evaluate("getSelection().toString()")
    return text


def select_all(page: Page) -> None:
    """Select the whole text, and wait until it is."""
    page.keyboard.press("Control+a")
    for _ in range(500):
        if len(selected(page)) > 20:
            return
        page.wait_for_timeout(20)
    raise AssertionError("nothing is selected")


def saved(page: Page) -> None:
    """Wait until what is typed is saved."""
    expect(page.locator("#saving")).to_have_attribute("data-phase", "saved")


def test_brackets_by_tab_by_key_and_by_choice(room: ReadingRoom, page: Page) -> None:
    """Tab and Shift+Tab, Ctrl+] and Ctrl+[, the buttons; a choice fills its bracket."""
    room.call("PUT", "admin/sites/SITE1/templates/7", {"name": "Chest", "document": CHEST})
    opened(page, room, reportingApp={"ApplyTemplate": 7})
    page.click("#text h2")
    page.keyboard.press("Tab")
    assert selected(page) == "[normal / enlarged]"
    page.keyboard.press("Tab")
    assert selected(page) == "[impression]"
    page.keyboard.press("Shift+Tab")
    assert selected(page) == "[normal / enlarged]"
    page.keyboard.press("Control+]")
    assert selected(page) == "[impression]"
    page.click("#bracket-prev")
    page.get_by_role("button", name="enlarged").click()
    page.keyboard.press("Tab")
    page.keyboard.type("Enlarged heart.")
    saved(page)
    assert room.content() == "Findings\nLungs:\nHeart: enlarged\nImpression\nEnlarged heart."
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") != "text"


def test_macros_of_the_site_and_ones_own(room: ReadingRoom, page: Page) -> None:
    """Typed and expanded; one made of what is selected; and removed again."""
    room.call("PUT", "admin/sites/SITE1/macros/.nl", {"text": "Lungs clear, [side] normal."})
    opened(page, room)
    page.click("#room-aids")
    expect(page.locator("#macros code")).to_have_text([".nl"])  # they come after the page
    page.focus("#text")  # by keyboard: what a click selects, the editor says a moment later
    page.keyboard.type(".nl ")
    assert selected(page) == "[side]"
    page.keyboard.type("both sides")
    select_all(page)
    page.click("#room-aids")
    page.click("#macro-new")
    assert page.input_value("#macro-text") == "Lungs clear, both sides normal."
    page.fill("#macro-trigger", "mine")
    page.click("#macro-save")
    expect(page.locator("#macros code")).to_have_text([".nl", "mine"])
    page.focus("#text")
    select_all(page)
    page.keyboard.type("mine")
    page.keyboard.press("Tab")
    saved(page)
    assert room.content() == "Lungs clear, both sides normal."
    page.click("#macros .danger")
    expect(page.locator("#macros code")).to_have_text([".nl"])


def test_a_template_by_number_and_what_it_maps(room: ReadingRoom, page: Page) -> None:
    """Into an empty report as it is; what is written goes into its sections, marked until kept."""
    room.call("PUT", "admin/sites/SITE1/templates/7", {"name": "Chest", "document": CHEST})
    room.call("PUT", "admin/sites/SITE1/templates/8", {"name": "Knee", "document": CHEST})
    opened(page, room)
    page.click("#room-aids")
    page.fill("#template-find", "7")
    expect(page.locator("#templates .template")).to_have_count(1)
    page.press("#template-find", "Enter")
    assert selected(page) == "[normal / enlarged]"
    saved(page)
    assert room.content().startswith("Findings\nLungs:")
    page.focus("#text")
    select_all(page)
    page.keyboard.type("Nodule in the left lung.")
    page.fill("#template-find", "knee")
    page.click("#templates .template")
    expect(page.locator("#text .suggested")).to_have_text("Nodule in the left lung.")
    page.click("#keep-all")
    expect(page.locator("#text .suggested")).to_have_count(0)
    page.click("#text")
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    expect(page.locator("#text")).to_have_text("Nodule in the left lung.")


def test_emphasis_headings_and_lists_are_kept(room: ReadingRoom, page: Page) -> None:
    """What the toolbar does comes back from the engine."""
    opened(page, room)
    page.click("#text")
    page.keyboard.type("Findings")
    page.get_by_role("button", name="Heading").click()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Bulleted list").click()
    page.keyboard.press("Control+b")
    page.keyboard.type("bold")
    page.keyboard.press("Control+b")
    page.keyboard.type(" plain")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    page.keyboard.type("end")
    saved(page)
    page.reload()
    expect(page.locator("#text")).to_be_visible()
    markup = page.inner_html("#text").replace(' dir="auto"', "")
    assert (
        "<h2>Findings</h2><ul><li><p><strong>bold</strong> plain</p></li></ul><p>end</p>" in markup
    )


def test_checks_before_signing(room: ReadingRoom, page: Page) -> None:
    """An alert can be looked at and passed; what the site prohibits cannot be signed."""
    opened(page, room, tags={"StudyDescription": "KNEE LEFT", "PatientSex": "M"})
    page.fill("#text", "Right knee. See [where].")
    page.click("#sign")
    expect(page.locator("#checks .finding")).to_have_count(2)
    page.click("#checks .finding:has-text('Right')")
    expect(page.locator("#checks")).to_have_count(0)
    page.wait_for_timeout(100)
    assert selected(page) == "Right"
    checks = {"settings": {"signChecks": {"openBracket": "prohibit"}}}
    room.call("PATCH", "admin/sites/SITE1", checks)
    page.click("#sign")
    expect(page.locator("#checks .prohibit")).to_have_count(1)
    expect(page.locator("#sign-anyway")).to_have_count(0)
    page.click("#checks-back")
    page.fill("#text", "Right knee.")
    page.click("#sign")
    page.click("#sign-anyway")
    page.wait_for_selector("#unsign:visible")
    assert room.status() == "Final"


def test_priors_are_compared_by_themselves_when_the_launch_wants_it(
    room: ReadingRoom, page: Page
) -> None:
    """AutoComparePrior: the best prior stands open; a click holds both texts side by side."""
    study = {"Modality": "CT", "BodyPartExamined": "CHEST", "StudyDescription": "CT CHEST"}
    opened(page, room, accession="OLD", tags={**study, "StudyDate": "20240110"})
    page.fill("#text", "Nodule of 4 mm.")
    page.click("#sign")
    page.wait_for_selector("#unsign:visible")
    opened(
        page,
        room,
        accession="NEW",
        tags={**study, "StudyDate": "20260110", "KeyFindings": "Nodule of 6 mm."},
        reportingApp={"AutoComparePrior": True},
    )
    expect(page.locator("#priors .document")).to_have_text("Nodule of 4 mm.")
    page.click("#priors .compare")
    assert (page.inner_text("#compare del"), page.inner_text("#compare ins")) == ("4", "6")


def test_key_images_and_findings_stand_beside_the_text(room: ReadingRoom, page: Page) -> None:
    """Images are shown small and large; findings go into the text as text."""
    data = io.BytesIO()
    Image.new("RGB", (64, 48), "white").save(data, "PNG")
    image = {"imageData": base64.b64encode(data.getvalue()).decode(), "contentType": "image/png"}
    findings = "<i>Nodule</i>\nEffusion"
    opened(page, room, tags={"KeyFindings": findings}, keyImages=[image])
    expect(page.locator("#images img")).to_have_js_property("naturalWidth", 64)
    page.click("#images button")
    expect(page.locator("#image .large")).to_be_visible()
    page.keyboard.press("Escape")
    page.fill("#text", "")
    page.get_by_role("button", name="Insert into the text").click()
    saved(page)
    assert room.content() == findings


def test_what_a_structured_report_measured_goes_into_the_text(
    room: ReadingRoom, page: Page
) -> None:
    """Each measurement with its value and where it stood; a click writes it at the caret."""
    measured = item("CONTAINER", "Nodule 1", ContentSequence=[number("Long axis", "12.5", "mm")])
    sent = base64.b64encode(file_of(report(measured, sop_class=COMPREHENSIVE))).decode()
    opened(page, room, dicomSR=[{"fileData": sent}])
    expect(page.locator("#measurements")).to_contain_text("Nodule 1")
    page.fill("#text", "Measured: ")
    page.keyboard.press("Control+End")
    page.get_by_role("button", name="12.5 mm").click()
    saved(page)
    assert room.content() == "Measured: Long axis: 12.5 mm"


def test_it_fits_a_side_panel_of_420_pixels(room: ReadingRoom, page: Page) -> None:
    """Nothing is cut off sideways; the panels are one tap away."""
    page.set_viewport_size({"width": 420, "height": 800})
    tags = {"PatientName": "VERY-LONG-FAMILY-NAME^WITH^MANY^PARTS", "StudyDescription": "CT CHEST"}
    opened(page, room, tags=tags)
    wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert not page.evaluate(wide)
    page.get_by_role("button", name="Side panel").click()
    expect(page.locator("#room-priors")).to_be_visible()
    assert not page.is_visible("#text")
    assert not page.evaluate(wide)


def test_a_structured_report_of_another_patient_is_announced(room: ReadingRoom, page: Page) -> None:
    """The page says what was set aside and why; nothing of the file is in the report."""
    wrong = report(item("TEXT", "Finding", TextValue="Mass of 9 cm"), PatientName="ROE^RICHARD")
    sent = base64.b64encode(file_of(wrong)).decode()
    opened(page, room, dicomSR=[{"fileData": sent}], tags={"PatientName": "DOE^JANE"})

    notice = page.locator(".set-aside")
    expect(notice).to_contain_text("names another patient")
    expect(notice).to_contain_text("Patient name")
    expect(page.locator("#measurements")).to_have_count(0)
    assert "Mass" not in room.content()


@pytest.mark.parametrize("text", ["one\ntwo\nthree", "one\r\n\r\nthree", "one\n"])
def test_lines_that_other_software_puts_in_leave_the_caret_behind_them(
    room: ReadingRoom, page: Page, text: str
) -> None:
    """Dictation software and text expanders insert text as input methods do: lines become lines."""
    opened(page, room)
    page.click("#text")
    page.keyboard.insert_text(text)
    page.keyboard.type("| more")
    saved(page)
    assert room.content() == text.replace("\r\n", "\n") + "| more"


def test_a_macro_keeps_the_space_that_expanded_it(room: ReadingRoom, page: Page) -> None:
    """What is typed on behind a macro does not stick to its text."""
    room.call("PUT", "admin/sites/SITE1/macros/.ok", {"text": "Lungs clear."})
    opened(page, room)
    page.click("#room-aids")
    expect(page.locator("#macros code")).to_have_text([".ok"])
    page.focus("#text")
    page.keyboard.type(".ok No effusion.")
    saved(page)
    assert room.content() == "Lungs clear. No effusion."
