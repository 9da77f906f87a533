"""The life of a report in the editor, in Chromium."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.editor.report_page import opened, phase
from tests.browser.engine_server import OTHER, READER, EngineServer
from tests.eventually import eventually

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_a_report_from_draft_to_addendum(engine: EngineServer, page: Page) -> None:
    """A report is saved, signed, recalled, signed by keyboard, amended and reloaded."""
    tags = {"PatientName": "<b>EXAMPLE</b>^PERSON", "KeyFindings": "Nodule, 4 mm."}
    link = engine.launch(tags=tags)
    page.goto(link)
    page.wait_for_selector("#sign:visible")
    # The address names the report and no longer the launch handle.
    assert page.url.startswith(link.partition("?")[0] + "?report=")
    assert page.inner_text("#patient") == "<b>EXAMPLE</b>, PERSON"
    assert page.inner_text("#text") == "Nodule, 4 mm."
    page.fill("#text", "Nodule, 4 mm.\nNo effusion.")
    expect(page.locator("#saving")).to_contain_text("Saved")
    eventually(lambda: engine.content() == "Nodule, 4 mm.\nNo effusion.")
    page.click("#sign")
    page.wait_for_selector("#unsign:visible")
    assert "released in" in page.inner_text("#cooling")
    page.click("#unsign")
    page.wait_for_selector("#sign:visible")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#addendum-create:visible")
    page.click("#addendum-create")
    page.fill("#addendum", "Compared with 2024.")
    page.click("#addendum-sign")
    page.wait_for_selector(".addendum")
    assert page.inner_text("#badge") == "Addendum"
    page.reload()
    page.wait_for_selector(".addendum")
    assert "Compared with 2024." in page.inner_text(".addendum")
    assert page.locator("#text > p").all_inner_texts() == ["Nodule, 4 mm.", "No effusion."]
    assert page.get_attribute("#text", "contenteditable") == "false"


def test_another_users_draft_is_transferred_after_a_prompt(
    engine: EngineServer, page: Page
) -> None:
    """The page shows the transfer prompt instead of the report until the user proceeds."""
    opened(page, engine.launch(email=READER))
    page.goto(engine.launch(email=OTHER))
    page.wait_for_selector("#proceed:visible")
    assert not page.is_visible("#text")
    page.click("#proceed")
    page.wait_for_selector("#sign:visible")
    assert page.inner_text("#badge") == "Draft"


def test_the_recall_period_ends(engine: EngineServer, page: Page) -> None:
    """The recall period ends by Sign Now or when the countdown expires."""
    opened(page, engine.launch())
    page.fill("#text", "Normal.")
    page.click("#sign")
    page.wait_for_selector("#sign-now:visible")
    first = page.inner_text("#cooling")
    expect(page.locator("#cooling")).not_to_have_text(first)
    page.click("#sign-now")
    expect(page.locator("#unsign")).to_have_count(0)
    assert engine.status() == "Final"
    engine.call("PATCH", "admin/sites/SITE1", {"signDelay": 2})
    opened(page, engine.launch(accession="A2"))
    page.fill("#text", "Normal.")
    page.click("#sign")
    page.wait_for_selector("#unsign:visible")
    expect(page.locator("#unsign")).to_have_count(0)


def test_preliminary_and_final_side_by_side(engine: EngineServer, page: Page) -> None:
    """A preliminary read has group and tag; the comparison shows changed words."""
    engine.call(
        "POST", "admin/sites/SITE1/prelim-groups", {"name": "Night", "tags": ["One", "Two"]}
    )
    opened(page, engine.launch())
    page.fill("#text", "No fracture of the radius.")
    page.click("#prelim")
    page.select_option("#prelim-tag", "Two")
    page.click("#prelim-yes")
    expect(page.locator("#badge")).to_have_text("Preliminary")
    page.fill("#text", "Fine fracture of the radius.")
    page.click("#sign")
    page.wait_for_selector("#unsign:visible")
    page.click("#room-versions")
    expect(page.locator("#prelims")).to_contain_text("Night · Two")
    page.click("#prelims .compare")
    assert page.inner_text("#compare del") == "No"
    assert page.inner_text("#compare ins") == "Fine"
    page.keyboard.press("Escape")
    expect(page.locator("#compare")).to_have_count(0)


def test_a_draft_is_discarded_after_confirmation(engine: EngineServer, page: Page) -> None:
    """Escape keeps the draft; confirmation removes it and closes the page."""
    opened(page, engine.launch())
    page.fill("#text", "Not needed.")
    page.click("#more")
    page.click("#discard")
    page.keyboard.press("Escape")
    phase(page, "saved")
    page.click("#more")
    page.click("#discard")
    page.click("#confirm-yes")
    expect(page.get_by_text("The report is closed")).to_be_visible()


def test_a_report_is_exported_and_printed(engine: EngineServer, page: Page) -> None:
    """The page exports PDF, DOCX and RTF; the printed page shows only the report."""
    opened(page, engine.launch())
    page.fill("#text", "Unmistakable.")
    for kind, start in (("pdf", b"%PDF"), ("docx", b"PK"), ("rtf", b"{\\rtf")):
        page.click("#more")
        with page.expect_download() as taken:
            page.click(f"#export-{kind}")
        assert re.fullmatch(rf"[^/]+ [0-9a-f]{{8}}\.{kind}", taken.value.suggested_filename)
        assert taken.value.path().read_bytes().startswith(start)
    page.evaluate("window.print = () => { window.printed = document.body.innerHTML }")
    page.click("#more")
    page.click("#print")
    expect(page.locator(".print-sheet")).to_have_count(1)
    page.emulate_media(media="print")
    assert page.is_visible(".print-sheet")
    assert "Unmistakable." in page.inner_text(".print-sheet .report-content")
    assert not page.is_visible("#sign")
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    expect(page.locator(".print-sheet")).to_have_count(0)


def test_billing_codes_and_shared_links(engine: EngineServer, page: Page) -> None:
    """Billing codes follow the site's map; anyone can open a shared link until it is revoked."""
    rows = "system,match,code,description\ncpt,KNEE,73560,Knee\nicd10,fracture,S82,Fracture\n"
    engine.call("PUT", "admin/sites/SITE1/code-map", {"csv": rows})
    opened(page, engine.launch(tags={"StudyDescription": "KNEE"}))
    page.fill("#text", "A fracture.")
    page.click("#room-outside")
    page.click("#codes-make")
    expect(page.locator("#codes")).to_contain_text("73560")
    expect(page.locator("#codes")).to_contain_text("S82")
    page.click("#share-make")
    link = page.input_value("#share-link")
    assert re.search(r"/reporting/shared\?token=\S{22}$", link)
    reading = page.context.new_page()
    reading.goto(link)
    assert "A fracture." in reading.inner_text(".report-content")
    page.click("#shares .danger")
    expect(page.locator("#shares li")).to_have_count(0)
    reading.reload()
    assert "A fracture." not in reading.content()
