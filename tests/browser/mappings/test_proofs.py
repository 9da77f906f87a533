"""Proofs of a mapping change in Chromium: shadow runs and examples, and what they lead to."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.acceptance.house import House
from tests.acceptance.orders import order
from tests.acceptance.wire import sink
from tests.browser.axe import violations
from tests.browser.mappings.conftest import (
    ADMINISTRATOR,
    OTHER_AUTHOR,
    RESTRICTED_AUTHOR,
    MappingConsole,
    add_authors,
    enter,
    fits,
)

pytestmark = [pytest.mark.browser, pytest.mark.slow]

OLD = "BodyPartExamined: [OBR-15.4.2, OBR-15.4.1]"
NEW = "BodyPartExamined: {from: ZDS-1.1, required: true}"


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MappingConsole]:
    """Three orders, one without a study; the report of the first was sent to `ris`."""
    with sink() as ris:
        house = House(Path(tmp_path_factory.mktemp("proofs")) / "home")
        house.destination("ris", ris.port)
        house.make()
        house.start()
        try:
            add_authors(house)
            house.send(order(7001, accession="A7001"), order(7002, accession="A7002"))
            house.send(order(7003, accession="A7003", study="-"))
            house.draft("M7001", "A7001", "No acute finding.")
            house.sign("M7001", "A7001")
            ris.wait(1)
            yield MappingConsole(house)
        finally:
            house.stop()
            house.kill()


def change(console: MappingConsole, email: str, name: str, old: str, new: str) -> None:
    """Save a draft in which a text of the active version is replaced."""
    active = console.call(email, "GET", f"mappings/{name}").json()["in_force"]["version"]
    files = console.call(email, "GET", f"mappings/{name}/versions/{active}").json()["files"]
    text = files[f"{name}.yaml"]
    assert old in text
    assert console.draft(email, name, **{name: text.replace(old, new)}).is_success


def view(page: Page, name: str) -> Locator:
    """Return the tab of a view of the definition."""
    return page.get_by_role("tab", name=name).or_(page.get_by_role("button", name=name)).first


def field(page: Page, name: str) -> Locator:
    return page.get_by_role("grid", name="Differences by field").get_by_role("row", name=name)


def test_a_change_is_proved_on_a_week_and_activated(console: MappingConsole, page: Page) -> None:
    """Four clicks from the editor; refusals first; the run is kept with the activation."""
    change(console, ADMINISTRATOR, "orders", OLD, NEW)
    enter(page, console, ADMINISTRATOR, "mappings/orders")
    view(page, "Shadow run").click()
    expect(page.get_by_text("Not compared yet")).to_be_visible()
    expect(page.get_by_text("3 messages")).to_be_visible()
    assert violations(page) == []
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_text("3 of 3 messages give another result.")).to_be_visible()
    expect(page.get_by_text("1 is refused now.")).to_be_visible()
    rows = page.get_by_role("grid", name="Differences by field").get_by_role("row")
    expect(rows.nth(1)).to_contain_text("refused now")
    expect(rows.nth(2)).to_contain_text("BodyPartExamined")
    page.get_by_role("button", name="Activate with this proof").click()
    dialog = page.get_by_role("dialog", name="Activate orders")
    dialog.get_by_label("Reason").fill("the study names the body part")
    assert violations(page) == []
    dialog.get_by_role("button", name="Activate orders").click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("button", name="Run again")).to_be_disabled()
    expect(page.get_by_role("button", name="Activate with this proof")).to_be_disabled()
    (newest, *_) = console.call(ADMINISTRATOR, "GET", "mappings/orders/history").json()["rows"]
    assert newest["evidence"]["compared"] == 3
    assert newest["evidence"]["classes"] == {"accepted_to_refused": 1}


def test_samples_are_read_when_they_are_opened(console: MappingConsole, page: Page) -> None:
    """Both values of a message; the page comes back with its run; all by keyboard."""
    change(console, OTHER_AUTHOR, "orders", NEW, OLD)
    enter(page, console, OTHER_AUTHOR, "mappings/orders/shadow")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_text("messages give another result.")).to_be_visible()
    enter(page, console, OTHER_AUTHOR, "mappings/orders/shadow")
    row = field(page, "BodyPartExamined")
    expect(row).to_be_visible()
    page.get_by_role("grid", name="Differences by field").focus()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    samples = page.get_by_role("region", name="Samples of BodyPartExamined")
    first = samples.get_by_role("button").first
    first.focus()
    page.keyboard.press("Enter")
    expect(first).to_have_attribute("aria-expanded", "true")
    values = samples.get_by_role("table")
    expect(values).to_contain_text("BodyPartExamined")
    expect(values.locator("del").first).to_contain_text("1.2.826")
    assert violations(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    page.emulate_media(color_scheme="light")
    expect(values).to_be_visible()
    assert fits(page)
    assert violations(page) == []
    samples.get_by_role("link", name="Open Message").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Message")


def test_a_reader_without_content_sees_no_values(console: MappingConsole, page: Page) -> None:
    """The fields and the messages, but no button for values; nothing to compare without a draft."""
    enter(page, console, RESTRICTED_AUTHOR, "mappings/orders/shadow")
    expect(page.get_by_text("does not differ from the active version")).to_be_visible()
    expect(page.get_by_role("button", name="Start")).to_be_disabled()
    change(console, RESTRICTED_AUTHOR, "orders", NEW, OLD)
    page.reload()
    page.get_by_role("button", name="Start").click()
    samples = page.get_by_role("region", name="Samples of")
    expect(samples).to_contain_text("those who may read message content")
    expect(samples.get_by_role("button")).to_have_count(0)
    page.route("**/api/mappings/orders/shadow?*", lambda route: route.abort())
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
    assert violations(page) == []


def test_results_are_compared_field_by_field(console: MappingConsole, page: Page) -> None:
    """A definition that writes results: fields with their names, and the values of a delivery."""
    change(console, ADMINISTRATOR, "results", "interpreter: ndl", "interpreter: xcn")
    enter(page, console, ADMINISTRATOR, "mappings/results/shadow")
    expect(page.get_by_text("1 result", exact=True)).to_be_visible()
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_text("1 of 1 results differs.")).to_be_visible()
    expect(field(page, "OBR-32 Principal result interpreter")).to_be_visible()
    page.get_by_role("button", name="Delivery").click()
    values = page.get_by_role("region", name="Samples of OBR-32").get_by_role("table")
    expect(values).to_contain_text("OBR-32")
    assert violations(page) == []


def test_messages_become_examples(console: MappingConsole, page: Page) -> None:
    """From the list by the export menu; a draft that reads them otherwise is told, and accepted."""
    enter(page, console, OTHER_AUTHOR, "mappings/orders/examples")
    expect(page.get_by_text("No examples yet")).to_be_visible()
    assert violations(page) == []
    page.get_by_role("link", name="Add from messages").click()
    grid = page.get_by_role("grid", name="Messages", exact=True)
    expect(grid.get_by_role("row").nth(3)).to_be_visible()
    page.get_by_role("button", name="Export").click()
    page.get_by_role("menuitem", name="As examples of a definition").click()
    dialog = page.get_by_role("dialog", name="Add examples to a definition")
    expect(dialog.get_by_label("Definition")).to_have_value("orders")
    assert violations(page) == []
    dialog.get_by_role("button", name="Add 3").click()
    expect(page.get_by_role("status").filter(has_text="ended")).to_be_visible()

    enter(page, console, OTHER_AUTHOR, "mappings/orders/examples")
    table = page.get_by_role("grid", name="Examples")
    expect(table.get_by_role("row")).to_have_count(4)
    expect(table.get_by_text("differs").first).to_be_visible()
    detail = page.get_by_role("region", name="Example")
    expect(detail.get_by_role("table")).to_contain_text("BodyPartExamined")
    assert violations(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    page.emulate_media(color_scheme="light")
    assert fits(page)
    assert violations(page) == []
    page.get_by_role("button", name="Accept the new results of").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Accept the new result").click()
    expect(page.get_by_text("all have the same result")).to_be_visible()
    table.get_by_role("button", name="Actions").first.click()
    page.get_by_role("menuitem", name="Remove").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Remove").click()
    expect(table.get_by_role("row")).to_have_count(3)
