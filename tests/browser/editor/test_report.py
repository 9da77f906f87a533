"""A report in the editor, from its first word to its addendum, in a real browser."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.reading_room import OTHER, READER, ReadingRoom

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def opened(page: Page, room: ReadingRoom, **launch: object) -> None:
    """Launch and open a report."""
    page.goto(room.launch(**launch))  # type: ignore[arg-type]
    page.wait_for_selector("#text")


def saved(page: Page) -> None:
    """Wait until what is typed is saved."""
    expect(page.locator("#saving")).to_have_attribute("data-phase", "saved")


def test_a_report_from_its_first_word_to_its_addendum(room: ReadingRoom, page: Page) -> None:
    """Typed and saved by itself, signed, recalled, signed by keyboard, addended, reloaded."""
    tags = {"PatientName": "<b>EXAMPLE</b>^PERSON", "KeyFindings": "Nodule, 4 mm."}
    link = room.launch(tags=tags)
    page.goto(link)
    page.wait_for_selector("#sign:visible")
    # The handle does not stay in the address; which report it was does.
    assert page.url.startswith(link.partition("?")[0] + "?report=")
    assert page.inner_text("#patient") == "<b>EXAMPLE</b>, PERSON"
    assert page.inner_text("#text") == "Nodule, 4 mm."
    page.fill("#text", "Nodule, 4 mm.\nNo effusion.")
    expect(page.locator("#saving")).to_contain_text("Saved")
    assert room.content() == "Nodule, 4 mm.\nNo effusion."
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


def test_another_users_draft_is_taken_over_after_a_question(room: ReadingRoom, page: Page) -> None:
    """States: the transfer prompt stands instead of the report until somebody proceeds."""
    opened(page, room, who=READER)
    page.goto(room.launch(who=OTHER))
    page.wait_for_selector("#proceed:visible")
    assert not page.is_visible("#text")
    page.click("#proceed")
    page.wait_for_selector("#sign:visible")
    assert page.inner_text("#badge") == "Draft"


def test_a_recall_ends_by_sign_now_or_by_the_clock(room: ReadingRoom, page: Page) -> None:
    """The countdown runs; Sign Now ends it; after it nothing can be recalled."""
    opened(page, room)
    page.fill("#text", "Normal.")
    page.click("#sign")
    page.wait_for_selector("#sign-now:visible")
    first = page.inner_text("#cooling")
    expect(page.locator("#cooling")).not_to_have_text(first)
    page.click("#sign-now")
    expect(page.locator("#unsign")).to_have_count(0)
    assert room.status() == "Final"
    room.call("PATCH", "admin/sites/SITE1", {"signDelay": 2})
    opened(page, room, accession="A2")
    page.fill("#text", "Normal.")
    page.click("#sign")
    page.wait_for_selector("#unsign:visible")
    expect(page.locator("#unsign")).to_have_count(0)


def test_preliminary_and_final_side_by_side(room: ReadingRoom, page: Page) -> None:
    """A read with group and tag; what changed since is shown word by word."""
    room.call("POST", "admin/sites/SITE1/prelim-groups", {"name": "Night", "tags": ["One", "Two"]})
    opened(page, room)
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


def test_a_draft_is_discarded_after_a_question(room: ReadingRoom, page: Page) -> None:
    """No is no; yes removes the draft and closes the page."""
    opened(page, room)
    page.fill("#text", "Not needed.")
    page.click("#more")
    page.click("#discard")
    page.keyboard.press("Escape")
    saved(page)
    page.click("#more")
    page.click("#discard")
    page.click("#confirm-yes")
    expect(page.get_by_text("The report is closed")).to_be_visible()


def test_it_is_saved_as_a_file_and_printed(room: ReadingRoom, page: Page) -> None:
    """PDF, DOCX and RTF with what is on the page; on paper the report alone."""
    opened(page, room)
    page.fill("#text", "Unmistakable.")
    for kind, start in (("pdf", b"%PDF"), ("docx", b"PK"), ("rtf", b"{\\rtf")):
        page.click("#more")
        with page.expect_download() as taken:
            page.click(f"#export-{kind}")
        assert taken.value.suggested_filename == f"report.{kind}"
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


def test_codes_are_derived_and_links_given_and_taken_back(room: ReadingRoom, page: Page) -> None:
    """Billing codes by the site's map; a share opens for anybody until it is revoked."""
    rows = "system,match,code,description\ncpt,KNEE,73560,Knee\nicd10,fracture,S82,Fracture\n"
    room.call("PUT", "admin/sites/SITE1/code-map", {"csv": rows})
    opened(page, room, tags={"StudyDescription": "KNEE"})
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
