"""The mapping editor in Chromium: drafts, completion, conflicts, trials."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.orders import order
from tests.acceptance.wire import Sender
from tests.browser.axe import violations
from tests.browser.mappings.conftest import (
    ADMINISTRATOR,
    OTHER_AUTHOR,
    RESTRICTED_AUTHOR,
    MappingConsole,
    click_line,
    editor,
    enter,
    fits,
    lines,
    rewrite,
    saved,
)
from tests.eventually import eventually

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SENDER = "include: orders.yaml\naccept:\n  senders: [{application: RISX}]\n"
HANGS = "def f(message):\n    while True:\n        pass\n"


def test_a_draft_survives_a_reload(console: MappingConsole, page: Page) -> None:
    """A draft keeps the input of a moment before; other authors see that it exists."""
    console.draft(ADMINISTRATOR, "kept", kept=SENDER)
    enter(page, console, ADMINISTRATOR, "mappings/kept")
    editor(page, "kept.yaml")
    page.keyboard.type("about: the last query\n")
    page.reload()
    expect(lines(page).first).to_have_text("about: the last query")
    page.get_by_role("button", name="Discard draft").click()
    page.get_by_role("button", name="Cancel").click()
    expect(lines(page).first).to_have_text("about: the last query")
    assert console.call(OTHER_AUTHOR, "GET", "mappings/kept").json()["draft"] is None
    enter(page, console, OTHER_AUTHOR, "mappings/kept")
    expect(page.get_by_text(f"{ADMINISTRATOR} also has a draft")).to_be_visible()
    enter(page, console, ADMINISTRATOR, "mappings/orders")
    editor(page, "orders.yaml")
    page.keyboard.type("# mine\n")
    saved(page)
    page.get_by_role("button", name="Discard draft").click()
    page.get_by_role("button", name="Discard", exact=True).click()
    expect(page.get_by_role("button", name="Discard draft")).to_be_disabled()
    expect(lines(page).first).not_to_have_text("# mine")


def test_completion(console: MappingConsole, page: Page) -> None:
    """Completion offers keys of the schema and fields of the test message; Enter inserts them."""
    console.draft(ADMINISTRATOR, "offered", offered=SENDER)
    enter(page, console, ADMINISTRATOR, "mappings/offered")
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
        page.wait_for_timeout(100)  # Enter does not accept an option that has just appeared
        page.keyboard.press("Enter")
    expect(lines(page).last).to_have_text("  Accession: {from: OBR-18, required: true}")
    saved(page)


def test_comments_are_folded_and_edits_can_be_undone(console: MappingConsole, page: Page) -> None:
    """Runs of comments open folded; a fold opens by a click, and Ctrl-Z takes an edit back."""
    lead = "# One.\n# Two.\n# Three.\n"
    console.draft(ADMINISTRATOR, "folded", folded=f"{lead}{SENDER}")
    enter(page, console, ADMINISTRATOR, "mappings/folded")
    expect(lines(page).nth(1)).to_have_text("include: orders.yaml")
    page.get_by_title("Show the folded lines").click()
    expect(lines(page).nth(1)).to_have_text("# Two.")
    editor(page, "folded.yaml")
    page.keyboard.press("Control+End")
    page.keyboard.type("about: undone")
    expect(lines(page).last).to_have_text("about: undone")
    page.keyboard.press("Control+z")
    expect(lines(page).filter(has_text="undone")).to_have_count(0)
    click_line(page, "accept:")
    page.keyboard.press("Control+Shift+BracketLeft")
    expect(lines(page).filter(has_text="RISX")).to_have_count(0)


HEIGHTS = """() => {
    const [area, layer] = document.querySelectorAll(".editor textarea, .editor .layer");
    area.style.height = "0";
    const needed = area.scrollHeight;
    area.style.height = "";
    const last = layer.lastElementChild.getBoundingClientRect();
    return [needed, last.bottom - layer.getBoundingClientRect().top + 4];
}"""


def test_the_field_and_its_colours_wrap_alike(console: MappingConsole, page: Page) -> None:
    """The caret is where the letters are: both texts have the same lines at every width."""
    words = " ".join(f"word-{number}, '{'x' * number}'" for number in range(1, 40))
    console.draft(ADMINISTRATOR, "wrapped", wrapped=f"{SENDER}about: >\n  {words}  \n  {words}\n")
    enter(page, console, ADMINISTRATOR, "mappings/wrapped")
    expect(lines(page)).to_have_count(7)
    for width in (1440, 1100, 768, 390):
        page.set_viewport_size({"width": width, "height": 900})
        needed, drawn = page.evaluate(HEIGHTS)
        assert (width, needed) == (width, pytest.approx(drawn, abs=1))


def test_a_mistake_is_shown_and_cannot_be_activated(console: MappingConsole, page: Page) -> None:
    """A problem leads to its place by keyboard; the server refuses to activate it."""
    draft = console.draft(
        ADMINISTRATOR, "wrong", wrong=f"{SENDER}tags:\n  PatientMRM: PID-2\n"
    ).json()
    enter(page, console, ADMINISTRATOR, "mappings/wrong")
    problem = page.get_by_role("region", name="Problems").get_by_role("button").first
    expect(problem).to_contain_text("wrong.yaml:5:3")
    problem.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name="Text of wrong.yaml")).to_be_focused()
    page.keyboard.press("Control+Delete")
    page.keyboard.type("PatientMRN")
    expect(page.get_by_text("PatientMRM")).to_have_count(0)
    body = {"reason": "I insist", "begun_on": "", "revision": draft["revision"], "listeners": []}
    bad = console.draft(OTHER_AUTHOR, "wrong", wrong=f"{SENDER}tags:\n  PatientMRM: PID-2\n").json()
    answer = console.call(OTHER_AUTHOR, "POST", "mappings/wrong/activate", body | bad_revision(bad))
    assert (answer.status_code, answer.json()["code"]) == (422, "mistakes")
    assert answer.json()["issues"][0]["line"] == 5
    assert console.call(OTHER_AUTHOR, "GET", "mappings/wrong").json()["in_force"] is None


def bad_revision(saved_draft: dict[str, object]) -> dict[str, object]:
    return {"revision": saved_draft["revision"]}


def test_a_concurrent_activation_is_shown_beside_the_draft(
    console: MappingConsole, page: Page
) -> None:
    """The author compares both texts and takes over the other author's change before activation."""
    assert (
        console.activate(ADMINISTRATOR, "both", f"{SENDER}tags:\n  Notes: NTE-3\n").status_code
        == 200
    )
    enter(page, console, ADMINISTRATOR, "mappings/both")
    editor(page, "both.yaml")
    rewrite(page, "Notes:", "Notes: OBX-5")
    saved(page)
    theirs = f"{SENDER}about: theirs\ntags:\n  Notes: NTE-3\n"
    assert console.activate(OTHER_AUTHOR, "both", theirs).status_code == 200
    page.get_by_role("button", name="Activate …").click()
    page.get_by_label("Reason").fill("mine")
    page.get_by_role("button", name="Activate both").click()
    dialog = page.get_by_role("dialog", name="Another user activated a version")
    expect(dialog).to_contain_text(OTHER_AUTHOR)
    differences = dialog.get_by_role("table", name="both.yaml")
    expect(differences).to_contain_text("both.yaml, active version both.yaml, your draft")
    expect(differences.get_by_role("row", name="about: theirs")).to_be_visible()
    expect(differences.get_by_role("row", name="Notes: OBX-5")).to_be_visible()
    assert violations(page) == []
    differences.get_by_role("button", name="Take over this change").first.press("Enter")
    expect(differences.get_by_role("row", name="+ about: theirs")).to_have_count(0)
    dialog.get_by_role("button", name="Keep my draft").click()
    page.get_by_label("Reason").fill("both of us")
    page.get_by_role("button", name="Activate both").click()
    expect(page.get_by_role("button", name="Discard draft")).to_be_disabled()
    text = console.call(ADMINISTRATOR, "GET", "mappings/both").json()["sources"]["both.yaml"]
    assert "about: theirs" in text
    assert "Notes: OBX-5" in text


def test_a_hanging_hook_is_stopped(console: MappingConsole, page: Page) -> None:
    """The trial stops a hanging hook and names it; authors without permission cannot save hooks."""
    text = f"{SENDER.replace('RISX', 'RIS')}tags:\n  Notes: {{hook: 'hangs:f'}}\n"
    files = {"hung.yaml": text, "hangs.py": HANGS}
    body = {"files": files, "begun_on": "", "revision": 0}
    refused = console.call(RESTRICTED_AUTHOR, "PUT", "mappings/hung/draft", body)
    assert (refused.status_code, refused.json()["code"]) == (403, "not_permitted")
    assert console.call(ADMINISTRATOR, "PUT", "mappings/hung/draft", body).json()["issues"] == []
    enter(page, console, ADMINISTRATOR, "mappings/hung")
    page.get_by_role("button", name="Last 10 stored").click()
    issues = page.get_by_role("list", name="Issues")
    expect(issues).to_contain_text("hook hangs:f was stopped: it took too long")
    expect(page.get_by_role("tabpanel")).to_contain_text("Acknowledged, then parked.")


def test_an_author_without_bodies_reads_none(console: MappingConsole, page: Page) -> None:
    """Such an author may try pasted messages; a comparison with stored ones shows no values."""
    stored = console.call(RESTRICTED_AUTHOR, "POST", "mappings/orders/stored", {"last": 5})
    assert stored.status_code == 403
    console.draft(
        RESTRICTED_AUTHOR, "blind", blind="include: orders.yaml\ntags: {PatientName: {const: X}}\n"
    )
    query = {"before": "now", "after": "draft", "last": 10}
    comparison = console.call(RESTRICTED_AUTHOR, "POST", "mappings/blind/compare", query)
    assert comparison.json()["differing"] == 3
    assert "DOE" not in comparison.text
    assert "M7001" not in comparison.text
    enter(page, console, RESTRICTED_AUTHOR, "mappings/blind")
    expect(page.get_by_role("button", name="Paste")).to_be_visible()
    expect(page.get_by_role("button", name="Last 10 stored")).to_have_count(0)
    page.get_by_role("button", name="Paste").click()
    page.get_by_role("textbox", name="Paste messages").fill(
        "MSH|^~\\&|A|B|||20260101||ORM^O01|1|P|2.3\nPID|1||M1"
    )
    page.get_by_role("button", name="Try").click()
    expect(page.get_by_role("tab", name="1")).to_be_visible()


def indexed(console: MappingConsole, control: str) -> None:
    """Wait until the index has the control id of a message."""
    path, wanted = "mappings/orders/stored", {"control": control}
    eventually(lambda: console.call(ADMINISTRATOR, "POST", path, wanted).json()["messages"])


def test_dialogs_and_previews_are_accessible_and_fit(console: MappingConsole, page: Page) -> None:
    """Axe finds no violation, every view fits, and Escape closes dialogs."""
    enter(page, console, ADMINISTRATOR)
    page.get_by_role("button", name="New", exact=True).click()
    page.get_by_role("menuitem", name="New empty definition").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert violations(page) == []
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("button", name="New", exact=True).click()
    page.get_by_role("menuitem", name="New definition from messages").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("New definition from messages")
    assert violations(page) == []
    page.get_by_role("link", name="All mappings").click()
    page.get_by_role("link", name="orders", exact=True).first.click()
    indexed(console, "C7002")
    page.get_by_role("button", name="By control id").click()
    page.get_by_role("textbox", name="Message control ID (MSH-10)").fill("C7002")
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Result")).to_contain_text("A7002")
    expect(page.get_by_text("1 of 1 accepted")).to_be_visible()
    page.get_by_role("button", name="Last 10 stored").click()
    expect(page.get_by_role("tablist", name="Test messages tried")).to_be_visible()
    for view in ("Edit", "Compare", "History"):
        page.get_by_role("tab", name=view, exact=True).click()
        expect(page.get_by_role("main")).to_be_visible()
        assert (view, violations(page)) == (view, [])
        assert fits(page), view


def test_the_order_of_a_listeners_definitions(console: MappingConsole, page: Page) -> None:
    """A user reorders definitions by keyboard with a reason, and resets them to the settings."""
    enter(page, console, ADMINISTRATOR, "mappings?show=connections")
    table = page.get_by_role("grid", name="By connection")
    settings = table.get_by_role("row").filter(has_text="from the listener settings")
    expect(settings).to_contain_text("orders, patients")
    table.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Definitions of listener orders")
    dialog.get_by_role("button", name="Move up: patients").press("Enter")
    expect(dialog.get_by_role("listitem").first).to_contain_text("patients")
    assert violations(page) == []
    dialog.get_by_label("Reason").fill("patients first")
    dialog.get_by_label("Reason").press("Enter")
    expect(table).to_contain_text("patients, orders")
    expect(table).to_contain_text(f"set by {ADMINISTRATOR}")
    page.get_by_role("button", name="Actions for orders").click()
    page.get_by_role("menuitem", name="Change the definitions").click()
    dialog.get_by_role("button", name="Reset to listener settings").click()
    dialog.get_by_label("Reason").fill("as it was")
    dialog.get_by_role("button", name="Save").click()
    expect(settings).to_contain_text("orders, patients")


def test_a_new_definition_extends_another(console: MappingConsole, page: Page) -> None:
    """The dialog says why a name is impossible, and opens the draft in the editor."""
    enter(page, console, ADMINISTRATOR)
    page.get_by_role("button", name="New", exact=True).click()
    page.get_by_role("menuitem", name="New empty definition").click()
    dialog = page.get_by_role("dialog", name="New definition")
    dialog.get_by_label("Definition name").fill("orders")
    expect(dialog).to_contain_text("A definition with this name already exists.")
    dialog.get_by_label("Definition name").fill("extended")
    dialog.get_by_label("Extends").select_option("patients")
    dialog.get_by_role("button", name="Create draft").click()
    text = page.get_by_role("textbox", name="Text of extended.yaml")
    expect(text).to_have_value("include: patients.yaml\n")
    expect(page).to_have_url(re.compile(r"/console/mappings/extended$"))
    page.get_by_role("link", name="Mappings").first.click()
    row = page.get_by_role("row").filter(has_text="extended")
    expect(row).to_contain_text("your draft")
    expect(row).to_contain_text("never")


def test_versions_are_compared_and_reactivated(console: MappingConsole, page: Page) -> None:
    """History says what each version changed; two of them are compared; an older one returns."""
    mrn = "tags:\n  PatientMRN: {{from: {0}, required: true}}\n"
    first, second = (f"{SENDER}{mrn.format(place)}" for place in ("PID-3.1", "PID-2.1"))
    for text in (first, second):
        assert console.activate(ADMINISTRATOR, "versions", text).status_code == 200
    console.draft(ADMINISTRATOR, "versions", versions=first)
    enter(page, console, ADMINISTRATOR, "mappings/versions/history")
    table = page.get_by_role("grid", name="History")
    rows = table.get_by_role("row")
    expect(rows).to_have_count(3)
    for number in (1, 2):
        rows.nth(number).get_by_role("checkbox").check()
    page.get_by_role("group", name="Selection").get_by_role("button", name="Compare").click()
    expect(page.get_by_role("tab", name="Compare")).to_have_attribute("aria-selected", "true")
    difference = page.get_by_role("table", name="versions.yaml")
    expect(difference.locator(".removed")).to_contain_text("PatientMRN: {from: PID-3.1")
    expect(difference.locator(".added")).to_contain_text("PatientMRN: {from: PID-2.1")
    page.reload()
    expect(difference.locator(".removed")).to_contain_text("PatientMRN: {from: PID-3.1")
    page.get_by_role("button", name="Activate …").click()
    dialog = page.get_by_role("dialog", name="Activate versions")
    expect(dialog).to_contain_text("PatientMRN reads PID-3.1; required before, it reads PID-2.1")
    expect(dialog).to_contain_text(re.compile(r"versions\.yaml \(\+1 .1 lines\)"))
    assert violations(page) == []
    page.keyboard.press("Escape")
    page.get_by_role("tab", name="History").click()
    rows.nth(2).get_by_role("button").last.click()
    page.get_by_role("menuitem", name="Reactivate").click()
    question = page.get_by_role("alertdialog", name="Roll back versions")
    expect(question.get_by_role("button", name="Reactivate")).to_be_disabled()
    question.get_by_label("Reason").fill("PID-2 was wrong")
    question.get_by_role("button", name="Reactivate").click()
    expect(rows).to_have_count(4)
    expect(rows.nth(1)).to_contain_text("PID-2 was wrong")
    expect(rows.nth(1)).to_contain_text("active")


def test_pages_of_mappings_say_that_they_cannot_load(console: MappingConsole, page: Page) -> None:
    """A failed request is named in its place, and repeated on demand."""
    enter(page, console, ADMINISTRATOR)
    page.route("**/console/api/mappings", lambda route: route.fulfill(status=500, body="{}"))
    page.reload()
    main = page.get_by_role("main")
    expect(main.get_by_role("alert")).to_be_visible()
    page.unroute("**/console/api/mappings")
    main.get_by_role("button", name="Retry").click()
    expect(main.get_by_role("grid", name="Definitions")).to_contain_text("orders")
    page.goto(f"{console.house.url}/console/mappings/nothing-such")
    expect(main).to_contain_text("There is no definition nothing-such")


def test_two_windows_of_one_draft(console: MappingConsole, page: Page) -> None:
    """The second window to save shows a conflict and lets its user choose a text."""
    console.draft(ADMINISTRATOR, "twice", twice=SENDER)
    enter(page, console, ADMINISTRATOR, "mappings/twice")
    page.get_by_role("textbox", name="Text of twice.yaml").wait_for()
    begun = console.call(ADMINISTRATOR, "GET", "mappings/twice").json()["draft"]
    body = {key: begun[key] for key in ("begun_on", "revision")}
    other = {"files": {"twice.yaml": f"# other\n{SENDER}"}, **body}
    assert console.call(ADMINISTRATOR, "PUT", "mappings/twice/draft", other).status_code == 200
    editor(page, "twice.yaml")
    page.keyboard.type("# mine\n")
    keep = page.get_by_role("button", name="Keep the text of this window")
    warning = page.get_by_role("alert").filter(has=keep)
    expect(warning).to_be_visible()
    assert violations(page) == []
    keep.click()
    expect(warning).to_have_count(0)
    saved(page)
    kept = console.call(ADMINISTRATOR, "GET", "mappings/twice").json()["draft"]
    assert kept["files"]["twice.yaml"].startswith("# mine\n")


def test_a_session_that_ends_while_typing(console: MappingConsole, page: Page) -> None:
    """The draft is saved as soon as its author is signed in again."""
    console.draft(ADMINISTRATOR, "ended", ended=SENDER)
    page.route("**/console/api/live**", lambda route: route.abort())  # only the draft is refused
    enter(page, console, ADMINISTRATOR, "mappings/ended")
    page.get_by_role("textbox", name="Text of ended.yaml").wait_for()
    page.wait_for_load_state("networkidle")
    page.get_by_role("textbox", name="Text of ended.yaml").focus()
    page.keyboard.press("Control+End")
    page.context.clear_cookies()
    page.keyboard.insert_text("# late")  # in one step: the dialog takes the focus
    dialog = page.get_by_role("dialog", name="You were signed out")
    expect(dialog).to_be_visible()
    console.add_cookies(page, ADMINISTRATOR)
    dialog.get_by_role("button", name="Continue").click()
    saved(page)
    draft = console.call(ADMINISTRATOR, "GET", "mappings/ended").json()["draft"]
    assert draft["files"]["ended.yaml"].endswith("# late")


def test_the_preview_marks_components_and_repetitions(console: MappingConsole, page: Page) -> None:
    """The preview marks used and unused parts as `mapping try` does."""
    text = (
        "MSH|^~\\&|RISX|HOSP|BRIDGE|RAD|20260102030405||ORM^O01^ORM_O01|C1|P|2.5.1\r"
        "PID|1||X2^^^NORTH^ZZ~M1^^^HOSP^MR||DOE^JANE^^^^^L||19700203|F\rORC|NW|P1|F1\r"
        "OBR|1|P1|F1|71250^CT CHEST^L|||20260102030000|||||||||||A1||||||CT\r"
    )
    number = "  PatientMRN: {from: 'PID-3[CX-5=MR].1', required: true}\n"
    console.draft(
        ADMINISTRATOR, "parts", parts=f"{SENDER}tags:\n{number}  ProcedureCode: OBR-4.1\n"
    )
    enter(page, console, ADMINISTRATOR, "mappings/parts")
    page.get_by_role("button", name="Paste", exact=True).click()
    page.get_by_role("textbox", name="Paste messages").fill(text.replace("\r", "\n"))
    page.get_by_role("button", name="Try", exact=True).click()
    page.set_viewport_size({"width": 1440, "height": 1800})  # the tree draws the rows in sight
    message = page.get_by_role("tree", name="Message")

    def check_mark(place: str, state: str) -> None:
        part = message.locator(f'[data-place="{place}"]')
        expect(part).to_have_class(re.compile(rf"(^|\s){state}(\s|$)"))

    for place in ("PID-3[2].1", "PID-3[2].5", "PID-5", "OBR-4.1"):
        check_mark(place, "used")
    for place in ("PID-3[2].4", "OBR-4.3"):
        check_mark(place, "unread")
    message.locator('[data-place="PID-3[2].1"]').click()
    segment = page.get_by_role("group", name="Text of the segment")
    expect(segment).to_contain_text("X2^^^NORTH^ZZ~M1^^^HOSP^MR")
    page.get_by_role("textbox", name="Text of parts.yaml").focus()
    page.keyboard.press("Control+End")
    page.keyboard.insert_text("  Notes: OBR-4.3\n")
    saved(page)
    check_mark("OBR-4.3", "used")
    assert violations(page) == []


def test_the_preview_of_a_result(console: MappingConsole, page: Page) -> None:
    """The preview of a result shows used order fields, tags, and parts of the report."""
    enter(page, console, ADMINISTRATOR, "mappings/results")
    indexed(console, "C7002")
    page.get_by_role("button", name="By control id").click()
    page.get_by_role("textbox", name="Message control ID (MSH-10)").fill("C7002")
    page.keyboard.press("Enter")
    expect(page.get_by_role("tree", name="Input message")).to_be_visible()
    facts = page.get_by_text("clinicalInfo.PatientMRN")
    expect(facts).to_be_visible()
    expect(page.get_by_text("report.signedBy.email")).to_be_visible()
    assert violations(page) == []
    page.get_by_role("button", name="Last releases").click()
    expect(page.get_by_text("No result was released yet.")).to_be_visible()
    expect(page.get_by_role("tree", name="Input message")).to_have_count(0)


def test_a_definition_from_refused_messages(console: MappingConsole, page: Page) -> None:
    """The last refused messages of a listener are taken over; another text ends the proposal."""
    raw = order(7060, accession="A7060").replace(b"|RIS|HOSP|", b"|NEWRIS|SOUTH|")
    with Sender(console.house.mllp_port) as sender:
        sender.ask(raw.replace(b"ORM^O01^ORM_O01", b"ORM^Z99"))
    wanted = {"filters": {"state": ["refused"]}}
    eventually(lambda: console.call(ADMINISTRATOR, "POST", "lists/messages", wanted).json()["rows"])
    enter(page, console, ADMINISTRATOR, "mappings/new/messages")
    propose = page.get_by_role("button", name="Propose a definition")
    expect(propose).to_be_disabled()
    page.get_by_role("button", name="Last refused of").click()
    page.get_by_role("menuitem", name="orders").click()
    messages = page.get_by_role("textbox", name="Paste messages")
    expect(messages).to_have_value(re.compile("NEWRIS"))
    messages.fill(raw.decode().replace("\r", "\n"))
    propose.click()
    proposal = page.get_by_role("figure", name="Proposed definition")
    expect(proposal).to_contain_text("NEWRIS")
    page.get_by_role("button", name="Create draft").click()
    expect(page.get_by_text("Letters, digits, - and _, at most 64.").first).to_be_visible()
    assert violations(page) == []
    messages.press("End")
    messages.press_sequentially("x")
    expect(proposal).to_have_count(0)
