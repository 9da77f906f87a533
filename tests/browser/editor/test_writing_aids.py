"""Writing aids in Chromium: brackets, macros, templates, checks, priors, files."""

import base64
import io

import pytest
from PIL import Image
from playwright.sync_api import Page, expect
from pydicom import Dataset

from tests.bridge.engine.documents.test_structured_report import (
    COMPREHENSIVE,
    file_of,
    item,
    number,
    report,
)
from tests.browser.editor.report_page import opened, phase
from tests.browser.engine_server import EngineServer

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


def selected(page: Page) -> str:
    text: str = page.evaluate("getSelection().toString()")
    return text


def select_all(page: Page) -> None:
    page.keyboard.press("Control+a")
    for _ in range(500):
        if len(selected(page)) > 20:
            return
        page.wait_for_timeout(20)
    raise AssertionError("nothing is selected")


def test_brackets(engine: EngineServer, page: Page) -> None:
    """Tab, Shift+Tab, Ctrl+] and a button move between brackets; a choice fills its bracket."""
    engine.call("PUT", "admin/sites/SITE1/templates/7", {"name": "Chest", "document": CHEST})
    opened(page, engine.launch(reportingApp={"ApplyTemplate": 7}))
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
    phase(page, "saved")
    assert engine.content() == "Findings\nLungs:\nHeart: enlarged\nImpression\nEnlarged heart."
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") != "text"


def test_macros_of_the_site_and_of_the_user(engine: EngineServer, page: Page) -> None:
    """A macro expands while typing; the user makes one of the selection and removes it."""
    engine.call("PUT", "admin/sites/SITE1/macros/.nl", {"text": "Lungs clear, [side] normal."})
    opened(page, engine.launch())
    page.click("#room-aids")
    expect(page.locator("#macros code")).to_have_text([".nl"])  # they load after the page
    page.focus("#text")  # not by click: the editor reports the selection of a click later
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
    phase(page, "saved")
    assert engine.content() == "Lungs clear, both sides normal."
    page.click("#macros .danger")
    expect(page.locator("#macros code")).to_have_text([".nl"])


def test_templates(engine: EngineServer, page: Page) -> None:
    """A template fills an empty report, or sorts existing text into its sections as suggestions."""
    engine.call("PUT", "admin/sites/SITE1/templates/7", {"name": "Chest", "document": CHEST})
    engine.call("PUT", "admin/sites/SITE1/templates/8", {"name": "Knee", "document": CHEST})
    opened(page, engine.launch())
    page.click("#room-aids")
    page.fill("#template-find", "7")
    expect(page.locator("#templates .template")).to_have_count(1)
    page.press("#template-find", "Enter")
    assert selected(page) == "[normal / enlarged]"
    phase(page, "saved")
    assert engine.content().startswith("Findings\nLungs:")
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


def test_emphasis_headings_and_lists_are_kept(engine: EngineServer, page: Page) -> None:
    """Emphasis, headings and lists survive a reload."""
    opened(page, engine.launch())
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
    phase(page, "saved")
    page.reload()
    expect(page.locator("#text")).to_be_visible()
    markup = page.inner_html("#text").replace(' dir="auto"', "")
    assert (
        "<h2>Findings</h2><ul><li><p><strong>bold</strong> plain</p></li></ul><p>end</p>" in markup
    )


def test_checks_before_signing(engine: EngineServer, page: Page) -> None:
    """A user may sign despite an alert, but not with a finding that the site prohibits."""
    opened(page, engine.launch(tags={"StudyDescription": "KNEE LEFT", "PatientSex": "M"}))
    page.fill("#text", "Right knee. See [where].")
    page.click("#sign")
    expect(page.locator("#checks .finding")).to_have_count(2)
    page.click("#checks .finding:has-text('Right')")
    expect(page.locator("#checks")).to_have_count(0)
    page.wait_for_timeout(100)
    assert selected(page) == "Right"
    checks = {"settings": {"signChecks": {"openBracket": "prohibit"}}}
    engine.call("PATCH", "admin/sites/SITE1", checks)
    page.click("#sign")
    expect(page.locator("#checks .prohibit")).to_have_count(1)
    expect(page.locator("#sign-anyway")).to_have_count(0)
    page.click("#checks-back")
    page.fill("#text", "Right knee.")
    page.click("#sign")
    page.click("#sign-anyway")
    page.wait_for_selector("#unsign:visible")
    assert engine.status() == "Final"


def test_a_launch_opens_the_comparison_with_a_prior(engine: EngineServer, page: Page) -> None:
    """AutoComparePrior opens the best prior; a click compares both texts."""
    study = {"Modality": "CT", "BodyPartExamined": "CHEST", "StudyDescription": "CT CHEST"}
    opened(page, engine.launch(accession="OLD", tags={**study, "StudyDate": "20240110"}))
    page.fill("#text", "Nodule of 4 mm.")
    page.click("#sign")
    page.wait_for_selector("#unsign:visible")
    link = engine.launch(
        accession="NEW",
        tags={**study, "StudyDate": "20260110", "KeyFindings": "Nodule of 6 mm."},
        reportingApp={"AutoComparePrior": True},
    )
    opened(page, link)
    expect(page.locator("#priors .document")).to_have_text("Nodule of 4 mm.")
    page.click("#priors .compare")
    assert (page.inner_text("#compare del"), page.inner_text("#compare ins")) == ("4", "6")


def test_a_prior_that_was_not_made_here(engine: EngineServer, page: Page) -> None:
    """It is marked, read with its versions, compared as any prior, and its PDF is saved."""
    study = {"Modality": "CT", "BodyPartExamined": "CHEST", "StudyDescription": "CT CHEST"}
    order = {"SiteID": "SITE1", "PatientMRN": "P1", "Accession": "NIGHT"}
    sent = {**order, **study, "StudyDate": "20240110", "sender": "NIGHTREADS|NORTH", "number": "1"}
    final = {"reportStatus": "final", "sentAt": 1, "text": "Nodule of 3 mm."}
    pdf = base64.b64encode(b"%PDF-1.7\n%%EOF\n").decode()
    corrected = {"reportStatus": "corrected", "sentAt": 2, "text": "Nodule of 4 mm.", "pdfs": [pdf]}
    for version in (corrected, final):
        engine.call("POST", "report/outside", {**sent, **version})
    link = engine.launch(
        accession="NEW",
        tags={**study, "StudyDate": "20260110", "KeyFindings": "Nodule of 6 mm."},
        reportingApp={"AutoComparePrior": True},
    )
    opened(page, link)
    expect(page.locator("#priors .prior")).to_contain_text("Not made here")
    expect(page.locator("#priors")).to_contain_text("From NIGHTREADS NORTH")
    expect(page.locator("#priors .document").first).to_have_text("Nodule of 4 mm.")
    expect(page.locator("#priors details .document")).to_be_hidden()
    page.click("#priors summary")
    expect(page.locator("#priors details .document")).to_have_text("Nodule of 3 mm.")
    with page.expect_download() as saved:
        page.click("#priors .pdf")
    assert saved.value.suggested_filename == "report.pdf"
    page.click("#priors .compare")
    assert (page.inner_text("#compare del"), page.inner_text("#compare ins")) == ("4", "6")


def test_key_images_and_findings(engine: EngineServer, page: Page) -> None:
    """The page shows key images small and large, and inserts key findings as plain text."""
    data = io.BytesIO()
    Image.new("RGB", (64, 48), "white").save(data, "PNG")
    image = {"imageData": base64.b64encode(data.getvalue()).decode(), "contentType": "image/png"}
    findings = "<i>Nodule</i>\nEffusion"
    opened(page, engine.launch(tags={"KeyFindings": findings}, keyImages=[image]))
    expect(page.locator("#images img")).to_have_js_property("naturalWidth", 64)
    page.click("#images button")
    expect(page.locator("#image .large")).to_be_visible()
    page.keyboard.press("Escape")
    page.fill("#text", "")
    page.get_by_role("button", name="Insert into the text").click()
    phase(page, "saved")
    assert engine.content() == findings


def test_measurements_of_a_structured_report(engine: EngineServer, page: Page) -> None:
    """The page lists each measurement with its context; a click inserts it at the caret."""
    measured = item("CONTAINER", "Nodule 1", ContentSequence=[number("Long axis", "12.5", "mm")])
    sent = base64.b64encode(file_of(report(measured, sop_class=COMPREHENSIVE))).decode()
    opened(page, engine.launch(dicomSR=[{"fileData": sent}]))
    expect(page.locator("#measurements")).to_contain_text("Nodule 1")
    page.fill("#text", "Measured: ")
    page.keyboard.press("Control+End")
    page.get_by_role("button", name="12.5 mm").click()
    phase(page, "saved")
    assert engine.content() == "Measured: Long axis: 12.5 mm"


def test_the_page_fits_a_side_panel_of_420_pixels(engine: EngineServer, page: Page) -> None:
    """The page is not wider than the panel, and a button shows the side panel."""
    page.set_viewport_size({"width": 420, "height": 800})
    tags = {"PatientName": "VERY-LONG-FAMILY-NAME^WITH^MANY^PARTS", "StudyDescription": "CT CHEST"}
    opened(page, engine.launch(tags=tags))
    wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert not page.evaluate(wide)
    page.get_by_role("button", name="Side panel").click()
    expect(page.locator("#room-priors")).to_be_visible()
    assert not page.is_visible("#text")
    assert not page.evaluate(wide)


def test_a_structured_report_of_another_patient_is_rejected(
    engine: EngineServer, page: Page
) -> None:
    """The page names the rejected file and the reason; the report contains nothing of it."""
    finding = item("TEXT", "Finding", TextValue="Mass of 9 cm")
    wrong = report(finding, PatientID="P2", PatientName="ROE^RICHARD")
    opened(page, launch_with(engine, wrong))

    notice = page.locator(".set-aside")
    expect(notice).to_contain_text("names another patient")
    expect(notice).to_contain_text("Patient ID")
    expect(notice).to_contain_text("Patient name")
    expect(page.locator(".overridden")).to_have_count(0)
    expect(page.locator("#measurements")).to_have_count(0)
    assert "Mass" not in engine.content()


def test_a_structured_report_with_another_name_is_used(engine: EngineServer, page: Page) -> None:
    """With the order's PatientID the report has the text; the page says which name it uses."""
    finding = item("TEXT", "Finding", TextValue="Mass of 9 cm")
    opened(page, launch_with(engine, report(finding, PatientName="ROE^RICHARD")))

    notice = page.locator(".overridden")
    expect(notice).to_contain_text("belongs to this patient")
    expect(notice).to_contain_text("Patient name")
    expect(notice).to_contain_text("value is used.")
    expect(page.locator(".set-aside")).to_have_count(0)
    expect(page.locator("h1")).to_have_text("DOE, JANE")
    assert "Mass of 9 cm" in engine.content()


def launch_with(engine: EngineServer, structured_report: Dataset) -> str:
    """Launch the order of Jane Doe (P1) with a structured report; return the link."""
    sent = base64.b64encode(file_of(structured_report)).decode()
    return engine.launch(dicomSR=[{"fileData": sent}], tags={"PatientName": "DOE^JANE"})


@pytest.mark.parametrize("text", ["one\ntwo\nthree", "one\r\n\r\nthree", "one\n"])
def test_inserted_lines_leave_the_caret_at_their_end(
    engine: EngineServer, page: Page, text: str
) -> None:
    """Text that dictation software or a text expander inserts keeps its lines."""
    opened(page, engine.launch())
    page.click("#text")
    page.keyboard.insert_text(text)
    page.keyboard.type("| more")
    phase(page, "saved")
    assert engine.content() == text.replace("\r\n", "\n") + "| more"


def test_a_macro_keeps_the_space_after_it(engine: EngineServer, page: Page) -> None:
    """The space that expands a macro stays between the macro and the next word."""
    engine.call("PUT", "admin/sites/SITE1/macros/.ok", {"text": "Lungs clear."})
    opened(page, engine.launch())
    page.click("#room-aids")
    expect(page.locator("#macros code")).to_have_text([".ok"])
    page.focus("#text")
    page.keyboard.type(".ok No effusion.")
    phase(page, "saved")
    assert engine.content() == "Lungs clear. No effusion."
