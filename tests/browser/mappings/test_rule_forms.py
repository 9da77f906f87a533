"""Rules changed by clicks in Chromium: by a place, a value, a code, or a field of a result."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.acceptance.wire import Sink, sink
from tests.browser.axe import violations
from tests.browser.console.hands import Mouse
from tests.browser.mappings.conftest import ADMINISTRATOR, MappingConsole, enter
from tests.eventually import eventually

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ORDERS = "include: orders.yaml   # all but the rules below\n"
MINE = f"""{ORDERS}
tags:
  # where the modality is
  Modality: [OBR-44.1, OBR-24]   # both
  Race: PID-10
"""


@pytest.fixture(autouse=True)
def _high(page: Page) -> None:
    page.set_viewport_size({"width": 1440, "height": 1100})  # a tree draws the rows in sight


def opened(page: Page, console: MappingConsole, name: str, text: str) -> None:
    """Open the editor of a definition that is active for the listener."""
    console.activate(ADMINISTRATOR, name, text, "orders")
    enter(page, console, ADMINISTRATOR, f"mappings/{name}")
    expect(page.get_by_role("tree", name="Message")).to_be_visible()


def row(page: Page, place: str) -> Locator:
    tree = page.get_by_role("tree", name="Message")
    return tree.get_by_role("treeitem").filter(has=page.locator(f"[data-place='{place}']"))


def text(page: Page) -> Locator:
    return page.locator(".editor .layer")


def rule(page: Page, target: str) -> Locator:
    """Open the form of the rule of a value."""
    name = target.replace("Metadata.", "")
    page.get_by_role("region", name="Result").locator(f"[data-target$=':{name}']").click()
    return page.get_by_role("group", name=f"Rule of {name}")


def said(page: Page, words: str) -> None:
    """Wait for the change in words, and close it."""
    toasts = page.get_by_role("group", name="Notifications")
    expect(toasts).to_contain_text(words)
    for button in toasts.get_by_role("button", name="Dismiss").all():
        button.click()


def test_a_click_changes_a_rule(console: MappingConsole, page: Page) -> None:
    """A place of the last message becomes a source; undo and redo are those of the text."""
    opened(page, console, "clicked", ORDERS)
    row(page, "OBR-3").click()
    form = page.get_by_role("dialog", name="Use OBR-3")
    form.get_by_label("For", exact=True).click()
    page.keyboard.type("Accession")
    page.keyboard.press("Enter")
    expect(form).to_contain_text("Now: reads the first IPC-1.1, else OBR-18")
    assert violations(page) == []
    form.get_by_role("button", name="Only").click()
    form.get_by_role("button", name="Apply").click()
    expect(form).to_have_count(0)
    said(page, "Accession reads OBR-3; required")
    expect(text(page)).to_contain_text("Accession: {from: OBR-3, required: true}")
    result = page.get_by_role("region", name="Result")
    expect(result.get_by_role("button", name="Accession F7003 was A7003")).to_be_visible()
    row(page, "PID-7").focus()
    page.keyboard.press("Control+z")
    expect(text(page)).not_to_contain_text("Accession:")
    expect(result.get_by_role("button", name="Accession A7003")).to_be_visible()
    page.keyboard.press("Control+Shift+z")
    expect(text(page)).to_contain_text("Accession:")
    page.get_by_role("textbox", name="Text of clicked.yaml").focus()
    page.keyboard.press("Control+z")
    expect(text(page)).not_to_contain_text("Accession:")


def test_a_place_becomes_metadata_with_several_settings(
    console: MappingConsole, page: Page
) -> None:
    """Conversion, condition and default are one step of undo; the form opens by keys, too."""
    opened(page, console, "kept", ORDERS)
    tree = page.get_by_role("tree", name="Message")
    row(page, "PID-5").click()
    page.keyboard.press("Escape")
    expect(tree).to_be_focused()
    page.keyboard.press("Enter")
    form = page.get_by_role("dialog", name="Use PID-5")
    form.get_by_label("For", exact=True).click()
    page.keyboard.type("New Metadata")
    page.keyboard.press("Enter")
    form.get_by_label("Name of the entry").fill("Callee")
    form.get_by_label("Conversion").select_option("person-name")
    form.get_by_text("Condition, default, required").click()
    form.get_by_label("Only if this field").fill("PID-8")
    form.get_by_label("Without a value").fill("nobody")
    form.get_by_role("button", name="Apply").click()
    said(page, "Callee reads PID-5; as person-name; else nobody; only if PID-8 has a value")
    expect(text(page)).to_contain_text("Callee:")
    page.get_by_role("button", name="Undo (Ctrl+Z)").click()
    expect(text(page)).not_to_contain_text("Callee")
    expect(page.get_by_role("button", name="Undo (Ctrl+Z)")).to_be_disabled()


def test_the_form_of_a_rule(console: MappingConsole, page: Page) -> None:
    """Sources are moved, changed and removed, with their comments in place; each change is said."""
    opened(page, console, "formed", MINE)
    form = rule(page, "Modality")
    sources = form.get_by_role("list", name="Sources in their order").get_by_role("listitem")
    expect(sources).to_have_count(2)
    sources.nth(1).locator(".handle").focus()
    page.keyboard.press("Alt+ArrowUp")
    expect(text(page)).to_contain_text("  Modality: [OBR-24, OBR-44.1]   # both")
    expect(sources.first.locator(".handle")).to_be_focused()
    said(page, "Modality reads OBR-24, else OBR-44.1")
    sources.first.locator(".handle").click()
    sources.first.get_by_label("Conversion").select_option("upper")
    expect(text(page)).to_contain_text("{from: OBR-24, as: upper}")
    said(page, "Modality reads OBR-24 (as upper), else OBR-44.1")
    sources.first.get_by_role("button", name="Condition").click()
    sources.first.get_by_label("Field").last.fill("PID-8")
    sources.first.get_by_label("Values").fill("M, F")
    page.keyboard.press("Enter")
    expect(text(page)).to_contain_text("when: {PID-8: [M, F]}")
    assert violations(page) == []
    form.get_by_role("button", name="Remove OBR-44.1").click()
    expect(sources).to_have_count(1)
    form.get_by_label("Without a value").fill("OT")
    page.keyboard.press("Enter")
    expect(text(page)).to_contain_text("default: OT")
    form.get_by_label("Add a source").fill("PDI-3")
    form.get_by_role("button", name="Add", exact=True).click()
    expect(form.get_by_role("alert")).to_contain_text("the definition would have an error")
    form.get_by_role("button", name="Remove the rule").click()
    expect(text(page)).not_to_contain_text("Modality: ")
    expect(text(page)).to_contain_text("# where the modality is")
    expect(form).to_contain_text("The rule is in orders.yaml")
    for _ in range(6):
        page.get_by_role("button", name="Undo (Ctrl+Z)").click()
    expect(text(page)).to_contain_text("  Modality: [OBR-44.1, OBR-24]   # both")


def test_a_code_without_an_entry(console: MappingConsole, page: Page) -> None:
    """A code of the message gets its entry in the table; undo goes back over both files."""
    opened(page, console, "coded", MINE.replace("OBR-24]", "{from: OBR-24, codes: modality}]"))
    page.get_by_role("button", name="Paste", exact=True).click()
    page.get_by_role("textbox", name="Paste messages").fill(
        "MSH|^~\\&|RIS|HOSP|BRIDGE|RAD|20260102030405||ORM^O01|C1|P|2.5.1\n"
        "PID|1||M1^^^HOSP^MR||DOE^JANE\nORC|NW|P1|F1\nOBR|1|P1|F1|71250^CT|||20260102||||"
        "|||||||A1||||||24\n"
    )
    page.get_by_role("button", name="Try", exact=True).click()
    form = rule(page, "Modality")
    expect(form).to_contain_text("Code 24 has no entry.")
    form.get_by_label("Without a value").fill("OT")
    page.keyboard.press("Enter")
    said(page, "else OT")
    entry = form.get_by_role("form", name="Entry of 24 in modality")
    entry.get_by_label("Value for 24").fill("CT")
    entry.get_by_role("button", name="Add entry").click()
    said(page, "modality: 24 gives CT")
    expect(page.get_by_role("button", name="codes/modality.csv").first).to_be_visible()
    result = page.get_by_role("region", name="Result")
    expect(result.get_by_role("button", name="Modality CT")).to_be_visible()
    expect(form).to_contain_text("24 gives CT.")
    page.get_by_role("button", name="Undo (Ctrl+Z)").click()
    expect(form).to_contain_text("Code 24 has no entry.")
    page.get_by_role("button", name="Undo (Ctrl+Z)").click()
    expect(text(page)).not_to_contain_text("default: OT")


def test_the_form_on_a_phone(console: MappingConsole, page: Page) -> None:
    opened(page, console, "small", MINE)
    page.set_viewport_size({"width": 390, "height": 844})
    page.get_by_role("tab", name="Mapped values").click()
    form = rule(page, "Modality")
    expect(form.get_by_role("list", name="Sources in their order")).to_be_visible()
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.fixture(scope="module")
def his(console: MappingConsole) -> Iterator[Sink]:
    """A receiver with a definition of its own, which has received a result."""
    with sink() as receiver:
        console.activate(ADMINISTRATOR, "his", "include: results.yaml\n")
        table = {"address": f"mllp://127.0.0.1:{receiver.port}", "mapping": "his"}
        body = {"table": table, "new": True, "reason": "a test", "begun_on": ""}
        answer = console.call(ADMINISTRATOR, "PUT", "connections/destination/his", body)
        assert answer.status_code == 200, answer.text
        eventually(lambda: re.search(r" connected .*destination=his", console.house.log()))
        console.house.draft("M7001", "A7001", "No acute finding.")
        console.house.sign("M7001", "A7001")
        receiver.wait(1)
        yield receiver


def test_a_field_of_a_result_leads_to_its_rule(
    console: MappingConsole, page: Page, his: Sink
) -> None:
    """The list of an included file is copied with its comments, then its field changes."""
    enter(page, console, ADMINISTRATOR, "mappings/his")
    composed = page.get_by_role("tree", name="Result as it would be sent").locator(
        "[data-place='PV1-2']"
    )
    composed.first.click()
    rules = page.get_by_role("region", name="Rules of the field")
    form = rules.get_by_role("group", name="Rule of visit/PV1-2")
    expect(form).to_contain_text("The rule is in include/segments.yaml")
    form.get_by_label("Add a source").fill("I")
    form.get_by_label("Place in the list").select_option("Only")
    form.get_by_role("button", name="Add", exact=True).click()
    said(page, "visit/PV1-2 reads the text I")
    expect(text(page)).to_contain_text("2: I                        # U: unknown (table 0004)")
    expect(composed.locator(".value")).to_have_text("I")
    assert violations(page) == []
    page.get_by_role("button", name="Undo (Ctrl+Z)").click()
    expect(text(page)).not_to_contain_text("PV1")


def test_an_odd_sender_in_fifteen_clicks(console: MappingConsole, page: Page) -> None:
    """From its messages to the active definition, with one rule changed by a click."""
    odd = (
        "MSH|^~\\&|ODD|HOSP|BRIDGE|RAD|20260102030405||ORM^O01|C9|P|2.5.1\r"
        "PID|1|S901|INS44901^^^INS^NI||SIMAK^ZOE||19700203|F\rORC|NW|P1|F1\r"
        "OBR|1|P1|F1|71250^CT CHEST|||20260102030000|||||||||||S26-901||||||CT\r"
    )
    enter(page, console, ADMINISTRATOR)
    hands = Mouse(page)
    _proposed(hands, page, odd)
    expect(page.get_by_role("tree", name="Message")).to_be_visible()
    hands.click(row(page, "PID-2"))
    form = page.get_by_role("dialog", name="Use PID-2")
    hands.click(form.get_by_label("For", exact=True))
    page.keyboard.type("PatientMRN")
    page.keyboard.press("Enter")
    hands.click(form.get_by_role("button", name="Only"))
    hands.click(form.get_by_role("button", name="Apply"))
    result = page.get_by_role("region", name="Result")
    expect(result.get_by_role("button", name="PatientMRN S901")).to_be_visible()
    hands.click(page.get_by_role("button", name="Activate"))
    dialog = page.get_by_role("dialog")
    hands.click(dialog.get_by_label("orders"))
    hands.write(dialog.get_by_label("Reason"), "an odd sender")
    hands.click(dialog.get_by_role("button", name="Activate"))
    expect(dialog).to_have_count(0)
    assert hands.clicks <= 15
    assert console.call(ADMINISTRATOR, "GET", "mappings/odd").json()["in_force"]


def _proposed(hands: Mouse, page: Page, messages: str) -> None:
    """From the list of definitions to the draft that is proposed for messages."""
    hands.click(page.get_by_role("button", name="New", exact=True))
    hands.click(page.get_by_role("menuitem", name="New definition from messages"))
    hands.drop(page.get_by_role("main").locator("input[type=file]"), "odd.hl7", messages.encode())
    hands.click(page.get_by_role("button", name="Propose a definition"))
    hands.write(page.get_by_label("Definition name"), "odd")
    hands.click(page.get_by_role("button", name="Create draft"))
