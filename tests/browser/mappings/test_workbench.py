"""The workbench in Chromium: drafts that are never lost, completion, and who was faster."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import complaints
from tests.browser.mappings.conftest import (
    AUTHOR,
    KEEPER,
    RIVAL,
    Desk,
    editor,
    enter,
    fits,
    rewrite,
    saved,
)
from tests.eventually import eventually

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SENDER = "include: orders.yaml\naccept:\n  senders: [{application: RISX}]\n"
HANGS = "def f(message):\n    while True:\n        pass\n"


def test_what_is_written_outlives_the_page(desk: Desk, page: Page) -> None:
    """Also what was typed the moment before; another author sees that there is a draft."""
    desk.draft(KEEPER, "kept", kept=SENDER)
    enter(page, desk, KEEPER, "mappings/kept")
    editor(page, "kept.yaml")
    page.keyboard.type("about: the last words\n")
    page.reload()
    expect(page.locator(".cm-line").first).to_have_text("about: the last words")
    page.get_by_role("button", name="Discard draft").click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".cm-line").first).to_have_text("about: the last words")
    assert desk.call(RIVAL, "GET", "mappings/kept").json()["draft"] is None
    enter(page, desk, RIVAL, "mappings/kept")
    expect(page.get_by_text(f"{KEEPER} also has a draft")).to_be_visible()
    enter(page, desk, KEEPER, "mappings/orders")
    editor(page, "orders.yaml")
    page.keyboard.type("# mine\n")
    saved(page)
    page.get_by_role("button", name="Discard draft").click()
    page.get_by_role("button", name="Discard", exact=True).click()
    expect(page.get_by_role("button", name="Discard draft")).to_be_disabled()
    expect(page.locator(".cm-line").first).not_to_have_text("# mine")


def test_keys_words_and_places_are_offered_by_keyboard(desk: Desk, page: Page) -> None:
    """From the schema, and from the message at hand; Enter takes what is chosen."""
    desk.draft(KEEPER, "offered", offered=SENDER)
    enter(page, desk, KEEPER, "mappings/offered")
    page.get_by_role("button", name="Last 10 stored").click()
    expect(page.get_by_role("tablist", name="Test messages tried")).to_be_visible()
    editor(page, "offered.yaml")
    page.keyboard.press("Control+End")
    for typed, offered in (
        ("tags:\n  Acc", "Accession"),
        ("{fr", "from"),
        ("OBR-18", "OBR-18"),
        (", req", "required"),
        ("t", "true"),
    ):
        page.keyboard.type(typed)
        expect(page.get_by_role("option", selected=True)).to_contain_text(offered)
        page.wait_for_timeout(100)  # what has just appeared is not taken at once
        page.keyboard.press("Enter")
    expect(page.locator(".cm-line").last).to_have_text(
        "  Accession: {from: OBR-18, required: true}"
    )
    saved(page)


def test_a_mistake_is_led_to_and_is_never_in_force(desk: Desk, page: Page) -> None:
    """By keyboard from the list of problems to its place; the server refuses it as well."""
    draft = desk.draft(KEEPER, "wrong", wrong=f"{SENDER}tags:\n  PatientMRM: PID-2\n").json()
    enter(page, desk, KEEPER, "mappings/wrong")
    problem = page.get_by_role("region", name="Problems").get_by_role("button").first
    expect(problem).to_contain_text("wrong.yaml:5:3")
    problem.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name="Text of wrong.yaml")).to_be_focused()
    page.keyboard.press("Control+Delete")
    page.keyboard.type("PatientMRN")
    expect(page.get_by_text("PatientMRM")).to_have_count(0)
    body = {"reason": "I insist", "begun_on": "", "revision": draft["revision"], "listeners": []}
    bad = desk.draft(RIVAL, "wrong", wrong=f"{SENDER}tags:\n  PatientMRM: PID-2\n").json()
    answer = desk.call(RIVAL, "POST", "mappings/wrong/activate", body | bad_revision(bad))
    assert (answer.status_code, answer.json()["code"]) == (422, "mistakes")
    assert answer.json()["issues"][0]["line"] == 5
    assert desk.call(RIVAL, "GET", "mappings/wrong").json()["in_force"] is None


def bad_revision(saved_draft: dict[str, object]) -> dict[str, object]:
    """The revision of a draft, as an activation names it."""
    return {"revision": saved_draft["revision"]}


def test_who_was_faster_is_shown_beside_ones_own(desk: Desk, page: Page) -> None:
    """Nothing is in force by accident; what the other changed is taken over by a key."""
    assert desk.activate(KEEPER, "both", f"{SENDER}tags:\n  Notes: NTE-3\n").status_code == 200
    enter(page, desk, KEEPER, "mappings/both")
    editor(page, "both.yaml")
    rewrite(page, "Notes:", "Notes: OBX-5")
    saved(page)
    theirs = f"{SENDER}about: theirs\ntags:\n  Notes: NTE-3\n"
    assert desk.activate(RIVAL, "both", theirs).status_code == 200
    page.get_by_role("button", name="Activate …").click()
    page.get_by_label("Reason").fill("mine")
    page.get_by_role("button", name="Activate", exact=True).click()
    dialog = page.get_by_role("dialog", name="Another user activated a version")
    expect(dialog).to_contain_text(RIVAL)
    expect(dialog.get_by_role("textbox", name="both.yaml, active version")).to_contain_text(
        "about: theirs"
    )
    expect(dialog.get_by_role("textbox", name="both.yaml, your draft")).to_contain_text(
        "Notes: OBX-5"
    )
    assert complaints(page) == []
    dialog.get_by_role("button", name="Take over this change").first.press("Enter")
    dialog.get_by_role("button", name="Keep my draft").click()
    page.get_by_label("Reason").fill("both of us")
    page.get_by_role("button", name="Activate", exact=True).click()
    expect(page.get_by_role("button", name="Discard draft")).to_be_disabled()
    text = desk.call(KEEPER, "GET", "mappings/both").json()["sources"]["both.yaml"]
    assert "about: theirs" in text
    assert "Notes: OBX-5" in text


def test_a_hook_that_hangs_costs_its_own_trial(desk: Desk, page: Page) -> None:
    """It is stopped and named, and where it is parked that is said; Python is for few."""
    text = f"{SENDER.replace('RISX', 'RIS')}tags:\n  Notes: {{hook: 'hangs:f'}}\n"
    files = {"hung.yaml": text, "hangs.py": HANGS}
    body = {"files": files, "begun_on": "", "revision": 0}
    refused = desk.call(AUTHOR, "PUT", "mappings/hung/draft", body)
    assert (refused.status_code, refused.json()["code"]) == (403, "not_permitted")
    assert desk.call(KEEPER, "PUT", "mappings/hung/draft", body).json()["issues"] == []
    enter(page, desk, KEEPER, "mappings/hung")
    page.get_by_role("button", name="Last 10 stored").click()
    issues = page.get_by_role("list", name="Issues")
    expect(issues).to_contain_text("hook hangs:f was stopped: it took too long or too much memory")
    expect(page.get_by_role("region", name="Result")).to_have_text("Acknowledged, then parked.")


def test_without_bodies_nobody_reads_any(desk: Desk, page: Page) -> None:
    """Own messages, yes; of stored ones how many differ and in which fields, and no value."""
    stored = desk.call(AUTHOR, "POST", "mappings/orders/stored", {"last": 5})
    assert stored.status_code == 403
    desk.draft(AUTHOR, "blind", blind="include: orders.yaml\ntags: {PatientName: {const: X}}\n")
    words = {"before": "now", "after": "draft", "last": 10}
    told = desk.call(AUTHOR, "POST", "mappings/blind/compare", words)
    assert told.json()["differing"] == 3
    assert "DOE" not in told.text
    assert "M7001" not in told.text
    enter(page, desk, AUTHOR, "mappings/blind")
    expect(page.get_by_role("button", name="Paste")).to_be_visible()
    expect(page.get_by_role("button", name="Last 10 stored")).to_have_count(0)
    page.get_by_role("button", name="Paste").click()
    page.get_by_role("textbox", name="Paste messages").fill(
        "MSH|^~\\&|A|B|||20260101||ORM^O01|1|P|2.3\nPID|1||M1"
    )
    page.get_by_role("button", name="Try").click()
    expect(page.get_by_role("tab", name="1")).to_be_visible()


def indexed(desk: Desk, control: str) -> None:
    """Wait until a message is found by its control id: the index is behind the inbox."""
    path, wanted = "mappings/orders/stored", {"control": control}
    eventually(lambda: desk.call(KEEPER, "POST", path, wanted).json()["messages"])


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_every_page_and_dialog_is_accessible_and_fits(desk: Desk, page: Page, theme: str) -> None:
    """Axe has no complaint, nothing is wider than the window, Escape closes."""
    enter(page, desk, KEEPER)
    page.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
    for button in ("New sender from samples", "New definition", "Change orders"):
        page.get_by_role("button", name=button).click()
        expect(page.get_by_role("dialog")).to_be_visible()
        assert (button, complaints(page)) == (button, [])
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("link", name="orders", exact=True).first.click()
    indexed(desk, "C7002")
    page.get_by_role("button", name="By control id").click()
    page.get_by_role("textbox", name="Message control ID (MSH-10)").fill("C7002")
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Result")).to_contain_text("A7002")
    expect(page.get_by_text("1 of 1 accepted")).to_be_visible()
    page.get_by_role("button", name="Last 10 stored").click()
    expect(page.get_by_role("tablist", name="Test messages tried")).to_be_visible()
    for view in ("Edit", "Compare", "History"):
        page.get_by_role("button", name=view, exact=True).click()
        expect(page.get_by_role("main")).to_be_visible()
        assert (view, complaints(page)) == (view, [])
        assert fits(page), view


def test_what_a_listener_reads_with_is_put_in_order(desk: Desk, page: Page) -> None:
    """By keyboard, with a reason; and as the settings say again."""
    enter(page, desk, KEEPER)
    page.get_by_role("button", name="Change orders").press("Enter")
    page.get_by_role("button", name="Move up: patients").press("Enter")
    page.get_by_label("Reason").fill("patients first")
    page.get_by_label("Reason").press("Enter")
    table = page.get_by_role("table", name="Listeners")
    expect(table).to_contain_text("patients, orders")
    expect(table).to_contain_text(f"set by {KEEPER}")
    page.get_by_role("button", name="Change orders").click()
    page.get_by_role("button", name="Reset to listener settings").click()
    page.get_by_label("Reason").fill("as it was")
    page.get_by_role("button", name="Save").click()
    expect(table).to_contain_text("from the listener settings")


def test_two_windows_of_one_draft(desk: Desk, page: Page) -> None:
    """Whoever saves second is told, and chooses whose text stays; nothing goes by itself."""
    desk.draft(KEEPER, "twice", twice=SENDER)
    enter(page, desk, KEEPER, "mappings/twice")
    page.get_by_role("textbox", name="Text of twice.yaml").wait_for()
    begun = desk.call(KEEPER, "GET", "mappings/twice").json()["draft"]
    body = {key: begun[key] for key in ("begun_on", "revision")}
    other = {"files": {"twice.yaml": f"# other\n{SENDER}"}, **body}
    assert desk.call(KEEPER, "PUT", "mappings/twice/draft", other).status_code == 200
    editor(page, "twice.yaml")
    page.keyboard.type("# mine\n")
    warning = page.get_by_role("alert").filter(has_text="saved in another window")
    expect(warning).to_be_visible()
    assert complaints(page) == []
    warning.get_by_role("button", name="Keep the text of this window").click()
    expect(warning).to_have_count(0)
    saved(page)
    kept = desk.call(KEEPER, "GET", "mappings/twice").json()["draft"]
    assert kept["files"]["twice.yaml"].startswith("# mine\n")


def test_a_session_that_ends_while_one_writes(desk: Desk, page: Page) -> None:
    """The draft is saved as soon as its author is signed in again."""
    desk.draft(KEEPER, "ended", ended=SENDER)
    enter(page, desk, KEEPER, "mappings/ended")
    page.get_by_role("textbox", name="Text of ended.yaml").wait_for()
    page.context.clear_cookies()
    page.get_by_role("textbox", name="Text of ended.yaml").focus()
    page.keyboard.press("Control+End")
    page.keyboard.insert_text("# late")  # at once: what is asked next takes the focus
    dialog = page.get_by_role("dialog", name="You were signed out")
    expect(dialog).to_be_visible()
    jar = desk.sign_in(KEEPER)
    page.context.add_cookies(
        [{"name": name, "value": jar[name], "url": desk.house.url} for name in jar]
    )
    dialog.get_by_role("button", name="Continue").click()
    saved(page)
    draft = desk.call(KEEPER, "GET", "mappings/ended").json()["draft"]
    assert draft["files"]["ended.yaml"].endswith("# late")


def test_the_preview_marks_components_and_repetitions(desk: Desk, page: Page) -> None:
    """As `mapping try` sorts them; a rule that reads a component marks it as used."""
    text = (
        "MSH|^~\\&|RISX|HOSP|BRIDGE|RAD|20260102030405||ORM^O01^ORM_O01|C1|P|2.5.1\r"
        "PID|1||X2^^^NORTH^ZZ~M1^^^HOSP^MR||DOE^JANE^^^^^L||19700203|F\rORC|NW|P1|F1\r"
        "OBR|1|P1|F1|71250^CT CHEST^L|||20260102030000|||||||||||A1||||||CT\r"
    )
    number = "  PatientMRN: {from: 'PID-3[CX-5=MR].1', required: true}\n"
    desk.draft(KEEPER, "parts", parts=f"{SENDER}tags:\n{number}  ProcedureCode: OBR-4.1\n")
    enter(page, desk, KEEPER, "mappings/parts")
    page.get_by_role("button", name="Paste", exact=True).click()
    page.get_by_role("textbox", name="Paste messages").fill(text.replace("\r", "\n"))
    page.get_by_role("button", name="Try", exact=True).click()
    message = page.get_by_role("region", name="Input message")

    def mark(place: str, word: str) -> None:
        part = message.get_by_title(place, exact=True)
        expect(part).to_have_class(re.compile(rf"(^|\s){word}(\s|$)"))

    for place in ("PID-3[2].1", "PID-3[2].5", "PID-5.1", "OBR-4.1"):
        mark(place, "used")
    for place in ("PID-3[1]", "PID-3[2].4", "PID-5.7", "OBR-4.3"):
        mark(place, "unused")
    expect(message).to_contain_text("X2^^^NORTH^ZZ~M1^^^HOSP^MR")
    page.get_by_role("textbox", name="Text of parts.yaml").focus()
    page.keyboard.press("Control+End")
    page.keyboard.insert_text("  Notes: OBR-4.3\n")
    saved(page)
    mark("OBR-4.3", "used")
    assert complaints(page) == []


def test_what_a_result_is_made_of(desk: Desk, page: Page) -> None:
    """Fields of the order that are used and not used, tags, and parts of the report."""
    enter(page, desk, KEEPER, "mappings/results")
    page.get_by_role("button", name="Last 10 stored").click()
    expect(page.get_by_role("region", name="Input message").locator(".used").first).to_be_visible()
    facts = page.get_by_text("clinicalInfo.PatientMRN")
    expect(facts).to_be_visible()
    expect(page.get_by_text("report.signedBy.email")).to_be_visible()
    assert complaints(page) == []
