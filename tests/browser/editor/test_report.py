"""The life of a report in the editor, in Chromium."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.editor.report_page import opened, phase, typed
from tests.browser.engine_server import OTHER, READER, EngineServer
from tests.browser.signing_in import enrol, open_signed_in
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


def suggested(page: Page, engine: EngineServer) -> None:
    opened(page, engine.launch(tags={"KeyFindings": "Nodule of 5 mm."}))
    page.fill("#text", "FINDINGS:\nLungs clear.\nIMPRESSION:")
    phase(page, "saved")
    page.click("#apply-findings")
    expect(page.locator(".suggested").first).to_be_visible()


def test_sign_asks_about_pending_suggestions(engine: EngineServer, page: Page) -> None:
    """Sign lists pending suggestions, and its main button goes back; accepted text is signed."""
    suggested(page, engine)
    page.click("#sign")
    expect(page.locator("#checks .finding:has-text('Suggested')")).to_have_count(1)
    assert "main" not in (page.get_attribute("#sign-anyway", "class") or "")
    assert "main" in (page.get_attribute("#checks-back", "class") or "")
    assert page.evaluate("document.activeElement.id") != "sign-anyway"
    assert engine.status() == "Draft"
    page.click("#checks-back")
    page.click("#keep-all")
    page.click("#sign")
    page.wait_for_selector("#unsign:visible, #checks:visible")
    expect(page.locator("#checks .finding:has-text('Suggested')")).to_have_count(0)


def test_pending_suggestions_can_be_signed(engine: EngineServer, page: Page) -> None:
    """`Sign anyway` signs a report with pending suggestions."""
    suggested(page, engine)
    page.click("#sign")
    page.click("#sign-anyway")
    expect(page.locator("#unsign")).to_be_visible()
    assert engine.status() == "Final"


def test_without_a_sign_delay_the_key_asks(engine: EngineServer, page: Page) -> None:
    """Without a sign delay Ctrl+Enter asks for confirmation, unless the site switches it off."""
    engine.call("PATCH", "admin/sites/SITE1", {"signDelay": 0})
    tags = {"PatientName": "EXAMPLE^PERSON"}
    opened(page, engine.launch(tags=tags))
    typed(page, "Normal.")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#sign-question")).to_contain_text("EXAMPLE, PERSON")
    expect(page.locator("#sign-question")).to_contain_text("A1")
    page.keyboard.press("Control+Enter")  # pressed again by mistake
    assert engine.status() == "Draft"
    page.keyboard.press("Escape")
    expect(page.locator("#sign-question")).to_have_count(0)
    page.keyboard.press("Control+Enter")
    page.click("#sign-confirmed")
    expect(page.locator("#addendum-create")).to_be_visible()
    assert engine.status() == "Final"
    opened(page, engine.launch("A2", tags=tags))
    typed(page, "Normal.")
    page.click("#sign")  # the button does not ask
    expect(page.locator("#addendum-create")).to_be_visible()
    engine.call("PATCH", "admin/sites/SITE1", {"settings": {"confirmSigning": False}})
    opened(page, engine.launch("A3", tags=tags))
    typed(page, "Normal.")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#addendum-create")).to_be_visible()
    assert engine.status("A3") == "Final"


@pytest.fixture
def unsigned(engine: EngineServer, page: Page) -> Page:
    opened(page, engine.launch())
    typed(page, "Preliminary text.")
    phase(page, "saved")
    identity = {"SiteID": "SITE1", "PatientMRN": "P1", "Accession": "A1"}
    read = {"clinicalInfo": identity, "prelimGroup": "Residents", "prelimTag": "Night"}
    engine.call("POST", "report/prelim", read)
    expect(page.locator("#badge")).to_have_attribute("data-status", "Preliminary")
    page.fill("#text", "Text of the attending.")
    page.click("#sign")
    page.click("#unsign")
    expect(page.locator("#text")).to_have_text("Preliminary text.")
    return page


def test_after_unsign_the_signed_text_is_one_press_away(
    engine: EngineServer, unsigned: Page
) -> None:
    """The notice restores the signed text in one step, which Undo takes back."""
    unsigned.reload()
    unsigned.click("#recalled-restore")
    expect(unsigned.locator("#text")).to_have_text("Text of the attending.")
    expect(unsigned.locator("#text")).to_be_focused()
    unsigned.keyboard.press("Control+z")
    expect(unsigned.locator("#text")).to_have_text("Preliminary text.")
    unsigned.keyboard.press("Control+y")
    phase(unsigned, "saved")
    expect(unsigned.locator("#recalled")).to_have_count(0)
    assert engine.content() == "Text of the attending."
    unsigned.click("#sign")
    expect(unsigned.locator("#unsign")).to_be_visible()
    expect(unsigned.locator("#recalled")).to_have_count(0)


def test_each_version_can_be_restored(engine: EngineServer, unsigned: Page) -> None:
    """Restore beside a signing or a preliminary read makes it the text."""
    unsigned.get_by_role("tab", name="Versions").click()
    unsigned.locator("#signings .restore").click()
    expect(unsigned.locator("#text")).to_have_text("Text of the attending.")
    unsigned.locator("#prelims .restore").click()
    expect(unsigned.locator("#text")).to_have_text("Preliminary text.")
    phase(unsigned, "saved")
    unsigned.click("#sign")
    expect(unsigned.locator("#unsign")).to_be_visible()
    expect(unsigned.locator(".restore")).to_have_count(0)


def test_after_unsign_the_keys_go_to_the_text(engine: EngineServer, page: Page) -> None:
    """Words typed after Unsign are in the text."""
    opened(page, engine.launch())
    typed(page, "Signed.")
    page.click("#sign")
    page.click("#unsign")
    expect(page.locator("#text")).to_be_focused()
    page.keyboard.press("Control+End")
    page.keyboard.type(" And corrected.")
    phase(page, "saved")
    assert engine.content() == "Signed. And corrected."


def test_macros_and_checks_are_set_in_the_app(engine: EngineServer, page: Page) -> None:
    """Macros and checks of the administrator apply to the next report."""
    enrol(engine)
    open_signed_in(page, engine, path="administration")
    page.get_by_role("button", name="Macros").click()
    page.fill("#site-macro-trigger", ".nf")
    page.fill("#site-macro-text", "No fracture of the [bone].")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#site-macros code")).to_have_text([".nf"])
    page.get_by_role("button", name="Checks").click()
    page.select_option("#check-emptyField", "prohibit")
    page.select_option("#check-openBracket", "prohibit")
    # The message about the saved macro may still be visible, so wait for the response.
    with page.expect_response(lambda answer: answer.request.method == "PATCH"):
        page.get_by_role("button", name="Save").click()
    page.goto(engine.launch())
    page.wait_for_selector("#sign:visible")
    page.click("#room-aids")
    expect(page.locator("#macros code")).to_have_text([".nf"])  # they load after the page
    page.click("#text")
    page.keyboard.type(".nf ")
    expect(page.locator("#text")).to_have_text("No fracture of the [bone].")
    page.keyboard.press("End")
    page.keyboard.type(" Compare [prior].")
    page.click("#sign")
    # A bracket of a macro is a field; a typed bracket is not.
    expect(page.locator("#checks .prohibit")).to_have_text(
        [re.compile(r"Empty field\s*\[bone\]"), re.compile(r"Open bracket\s*\[prior\]")]
    )
    expect(page.locator("#sign-anyway")).to_have_count(0)
