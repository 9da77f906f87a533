"""The lists of the console: filters, views, columns, the panel beside them, new rows, a phone."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, Response, Route, expect

from tests.acceptance.orders import order
from tests.acceptance.wire import Sender
from tests.browser.axe import violations
from tests.browser.console.conftest import CHIEF, OPERATOR, VIEWER, ServiceHarness, without_stream
from tests.browser.console_client import enter

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SHIFTS = """() => new Promise(resolve => new PerformanceObserver(list => resolve(
  list.getEntries().filter(entry => !entry.hadRecentInput).map(entry => entry.value)
)).observe({type: 'layout-shift', buffered: true}) || setTimeout(() => resolve([]), 500))"""


def grid_of(page: Page, name: str) -> Locator:
    return page.get_by_role("grid", name=name, exact=True)


def row_of(grid: Locator, text: str) -> Locator:
    return grid.get_by_role("row").filter(has_text=text)


def add_filter(page: Page, field: str, *values: str) -> None:
    """Add a filter by keyboard: `f`, the field, and a choice or a text."""
    page.keyboard.press("f")
    page.get_by_role("combobox", name="Add a filter").fill(field)
    page.keyboard.press("Enter")
    editor = page.get_by_role("dialog", name=field)
    for value in values:
        editor.get_by_role("option", name=value, exact=True).click()
    if not values:
        return
    page.keyboard.press("Escape")


def test_messages_are_filtered_by_keyboard_and_the_address_keeps_it(
    service: ServiceHarness, page: Page
) -> None:
    """A chip for each filter; reload and Back keep them; Delete removes one."""
    enter(page, service, OPERATOR, "messages")
    grid = grid_of(page, "Messages")
    expect(row_of(grid, "A7001")).to_contain_text("applied")
    add_filter(page, "State", "parked")
    expect(row_of(grid, "A7003")).to_contain_text("parked")
    expect(row_of(grid, "A7001")).to_have_count(0)
    assert "state=parked" in page.url
    page.reload()
    expect(row_of(grid, "A7003")).to_be_visible()
    chip = page.get_by_role("button", name="Filter State : parked")
    chip.focus()
    assert violations(page) == []
    page.keyboard.press("Delete")
    expect(row_of(grid, "A7001")).to_be_visible()
    page.go_back()
    expect(chip).to_be_visible()
    expect(row_of(grid, "A7001")).to_have_count(0)


def test_a_number_is_in_no_address(service: ServiceHarness, page: Page) -> None:
    """Reload keeps a private filter; another tab with the address says that it is left out."""
    service.found(OPERATOR, kind="order", number="A7001")
    enter(page, service, OPERATOR, "messages")
    grid = grid_of(page, "Messages")
    expect(grid.get_by_role("row").nth(1)).to_be_visible()
    add_filter(page, "Number")
    page.get_by_role("textbox", name="Number").fill("A7001")
    page.keyboard.press("Enter")
    expect(grid.get_by_role("row")).to_have_count(2)
    expect(row_of(grid, "A7001")).to_be_visible()
    assert "A7001" not in page.url + page.title()
    page.reload()
    expect(grid.get_by_role("row")).to_have_count(2)
    other = page.context.new_page()
    other.goto(page.url)
    expect(other.get_by_text("The address leaves out filters")).to_be_visible()
    other.close()


def test_enter_shows_a_message_beside_the_list_and_then_its_page(
    service: ServiceHarness, page: Page
) -> None:
    """Arrows move both; content is read when its tab is shown; Escape closes the panel."""
    enter(page, service, OPERATOR, "messages?state=parked,done")
    grid = grid_of(page, "Messages")
    expect(row_of(grid, "A7003")).to_be_visible()
    grid.focus()
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    panel = page.get_by_role("complementary")
    first = panel.get_by_role("heading", level=2).inner_text()
    expect(grid).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(panel.get_by_role("heading", level=2)).not_to_have_text(first)
    assert violations(page) == []
    panel.get_by_role("tab", name="Content").click()
    expect(panel.get_by_role("group", name="Content")).to_contain_text("MSH|")
    page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    grid.focus()
    page.keyboard.press("Enter")
    panel.get_by_role("tab", name="Summary").click()
    grid.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Message")
    page.go_back()
    expect(panel).to_be_visible()


def test_any_mapped_tag_is_a_column(service: ServiceHarness, page: Page) -> None:
    """A tag, an HL7 path, and their order; the choice survives a reload."""
    enter(page, service, OPERATOR, "messages")
    grid = grid_of(page, "Messages")
    expect(row_of(grid, "A7001")).to_be_visible()
    page.get_by_role("button", name="Columns").click()
    chooser = page.get_by_role("combobox", name="Columns")
    chooser.fill("BodyPart")
    page.keyboard.press("Enter")
    chooser.fill("pv1-2")
    page.keyboard.press("Enter")
    assert violations(page) == []
    page.keyboard.press("Escape")
    expect(grid.get_by_role("columnheader", name="PV1-2")).to_be_visible()
    expect(row_of(grid, "A7001").get_by_text("O", exact=True)).to_be_visible()
    page.reload()
    expect(grid.get_by_role("columnheader", name="BodyPartExamined")).to_be_visible()
    page.get_by_role("button", name="Columns").click()
    page.get_by_role("option", name="PV1-2").hover()
    page.get_by_role("combobox", name="Columns").press("Alt+ArrowUp")
    titles = grid.get_by_role("columnheader").all_inner_texts()
    assert titles.index("PV1-2") < titles.index("BodyPartExamined")
    page.get_by_role("button", name="Reset").click()
    expect(grid.get_by_role("columnheader", name="PV1-2")).to_have_count(0)


def test_few_rows_are_sorted_by_a_column(service: ServiceHarness, page: Page) -> None:
    """The header sorts both ways, and the address says so."""
    enter(page, service, OPERATOR, "messages")
    grid = grid_of(page, "Messages")
    listener = grid.get_by_role("columnheader", name="Listener")
    listener.get_by_role("button").click()
    expect(listener).to_have_attribute("aria-sort", "ascending")
    expect(grid.get_by_role("row").nth(1)).to_contain_text("orders")
    listener.get_by_role("button").click()
    expect(listener).to_have_attribute("aria-sort", "descending")
    expect(grid.get_by_role("row").nth(1)).to_contain_text("stray")
    expect(page).to_have_url(f"{service.house.url}/console/messages?sort=-channel")
    page.reload()
    expect(grid.get_by_role("row").nth(1)).to_contain_text("stray")


@pytest.fixture
def shared_view(service: ServiceHarness) -> Iterator[str]:
    """The name of a view that a test shares; it is deleted afterwards."""
    yield "Stray orders"
    for row in service.call(OPERATOR, "GET", "views?list=messages").json()["rows"]:
        service.call(CHIEF, "DELETE", f"views/{row['id']}")


def test_a_view_is_saved_shared_and_used_by_another(
    service: ServiceHarness, page: Page, shared_view: str
) -> None:
    """It has no private filter; a change is marked."""
    enter(page, service, OPERATOR, "messages?channel=stray")
    grid = grid_of(page, "Messages")
    expect(row_of(grid, "A7003")).to_be_visible()
    add_filter(page, "Error text")
    page.get_by_role("textbox", name="Error text").fill("site")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Views").click()
    page.get_by_role("button", name="Save as a new view").click()
    dialog = page.get_by_role("dialog", name="Save as a new view")
    expect(dialog).to_contain_text("Left out, because they may be patient data: Error text.")
    dialog.get_by_label("Name").fill(shared_view)
    dialog.get_by_role("switch", name="Share with everyone").click()
    assert violations(page) == []
    dialog.get_by_role("button", name="Save view").click()
    expect(page.get_by_role("button", name=shared_view)).to_be_visible()
    enter(page, service, VIEWER, "messages")
    page.get_by_role("button", name="Views").click()
    page.get_by_role("option", name=shared_view).click()
    expect(page.get_by_role("button", name="Filter Listener : stray")).to_be_visible()
    expect(page.get_by_role("button", name="Filter Error text")).to_have_count(0)
    page.get_by_role("button", name="Clear", exact=True).click()
    expect(page.get_by_role("button", name=f"{shared_view} •")).to_be_visible()


def test_a_view_without_the_permission_is_not_shared(service: ServiceHarness, page: Page) -> None:
    enter(page, service, VIEWER, "messages")
    page.get_by_role("button", name="Views").click()
    page.get_by_role("button", name="Save as a new view").click()
    expect(page.get_by_role("dialog").get_by_label("Name")).to_be_focused()
    expect(page.get_by_role("switch")).to_have_count(0)


def test_a_late_response_is_ignored(service: ServiceHarness, page: Page) -> None:
    """If the response to the first question arrives last, the list shows the last question."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        filters = (route.request.post_data_json or {}).get("filters", {})
        held.append(route) if filters.get("state") == ["parked"] else route.continue_()

    without_stream(page)
    enter(page, service, OPERATOR, "messages")
    grid = grid_of(page, "Messages")
    expect(row_of(grid, "A7001")).to_be_visible()
    page.route("**/lists/messages", hold)
    add_filter(page, "State", "parked", "applied")
    expect(row_of(grid, "A7001")).to_be_visible()
    expect(row_of(grid, "A7003")).to_be_visible()
    assert held
    for route in held:
        route.continue_()
    expect(row_of(grid, "A7001")).to_be_visible()


def test_new_messages_appear(service: ServiceHarness, page: Page) -> None:
    """At the top of the list, without a reload; their content follows."""
    enter(page, service, OPERATOR, "messages")
    grid = grid_of(page, "Messages")
    expect(row_of(grid, "A7001")).to_be_visible()
    with Sender(service.house.mllp_port) as sender:
        sender.ask(order(7070, accession="A7070", name="NEWLY^COME"))
    expect(grid.get_by_role("row").nth(1)).to_contain_text("NEWLY, COME")
    expect(row_of(grid, "A7070")).to_contain_text("applied")


def test_nothing_moves_while_a_list_loads(service: ServiceHarness, page: Page) -> None:
    """Rows, counts and content cells arrive without a layout shift."""
    for name in ("messages", "deliveries", "orders"):
        enter(page, service, OPERATOR, name)
        grid = grid_of(page, name.title())
        expect(row_of(grid, "A7001").first).to_be_visible()
        assert (name, page.evaluate(SHIFTS)) == (name, [])


def test_a_viewer_gets_no_patient_data(service: ServiceHarness, page: Page) -> None:
    """No column, no filter and no content of patients; no response has a name or a number."""
    answers: list[Response] = []

    def keep(answer: Response) -> None:
        answers.append(answer)

    page.on("response", keep)
    enter(page, service, VIEWER, "messages")
    grid = grid_of(page, "Messages")
    expect(grid.get_by_role("row").nth(1)).to_be_visible()
    titles = grid.get_by_role("columnheader").all_inner_texts()
    assert {"Patient", "Accession", "MSH-10"}.isdisjoint(titles)
    page.keyboard.press("f")
    expect(page.get_by_role("option", name="State", exact=True)).to_be_visible()
    for field in ("Number", "Patient name"):
        expect(page.get_by_role("option", name=field, exact=True)).to_have_count(0)
    page.keyboard.press("Escape")
    grid.focus()
    page.keyboard.press("Enter")
    panel = page.get_by_role("complementary")
    panel.get_by_role("tab", name="Content").click()
    expect(panel).to_contain_text("You do not have permission to read message content.")
    texts = [answer.text() for answer in answers if "/api/lists" in answer.url]
    assert texts
    assert not any("DOE" in text or "M7001" in text for text in texts)


def test_orders_are_found_and_shown_with_their_report(service: ServiceHarness, page: Page) -> None:
    """By the number of a patient; the panel leads to the messages and to the last delivery."""
    enter(page, service, OPERATOR, "worklist")
    grid = grid_of(page, "Orders")
    expect(row_of(grid, "A7002")).to_be_visible()
    expect(row_of(grid, "A7001")).to_have_count(0)
    page.get_by_role("tab", name="All").click()
    expect(row_of(grid, "A7001")).to_contain_text("final")
    add_filter(page, "Number")
    page.get_by_role("combobox", name="Kind").select_option("patient ID")
    page.get_by_role("textbox", name="Number").fill("M7001")
    page.keyboard.press("Enter")
    expect(row_of(grid, "A7001")).to_be_visible()
    assert "M7001" not in page.url
    grid.focus()
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    panel = page.get_by_role("complementary")
    expect(panel).to_contain_text("accepted")
    assert violations(page) == []


def test_deliveries_are_filtered_by_receiver(service: ServiceHarness, page: Page) -> None:
    enter(page, service, OPERATOR, "deliveries?destination=ris&state=done")
    grid = grid_of(page, "Deliveries")
    expect(row_of(grid, "A7001")).to_contain_text("accepted")
    grid.focus()
    page.keyboard.press("Enter")
    panel = page.get_by_role("complementary")
    panel.get_by_role("tab", name="Reply").click()
    expect(panel.get_by_role("group", name="Reply")).to_contain_text("MSA|AA")
    assert violations(page) == []


def test_the_audit_trail_is_searched_and_verified(service: ServiceHarness, page: Page) -> None:
    """Events of the console by action, of the report engine by site, and accepted results."""
    service.call(VIEWER, "POST", "messages/1/replay", {})
    enter(page, service, CHIEF, "audit?action=replay")
    grid = grid_of(page, "Audit")
    expect(row_of(grid, "vera@site1.test").first).to_contain_text("not permitted")
    page.get_by_role("button", name="Verify chain").click()
    expect(page.get_by_text("The chain is intact")).to_be_visible()
    assert violations(page) == []
    page.get_by_role("tab", name="Report engine").click()
    add_filter(page, "Person")
    page.get_by_role("textbox", name="Person").fill("ada@example.org")
    page.keyboard.press("Enter")
    expect(row_of(grid, "sign").first).to_be_visible()
    page.get_by_role("tab", name="Accepted results").click()
    expect(row_of(grid, "ris").first).to_contain_text("final")
    assert violations(page) == []


def test_a_phone_has_a_sheet_of_filters(service: ServiceHarness, page: Page) -> None:
    """At 390 px rows are stacked, filters are in a sheet, and a tap opens the page."""
    page.set_viewport_size({"width": 390, "height": 844})
    enter(page, service, OPERATOR, "messages")
    grid = grid_of(page, "Messages")
    expect(row_of(grid, "A7001")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("button", name="Filters").click()
    sheet = page.get_by_role("dialog", name="Filters")
    sheet.get_by_role("button", name="Filter", exact=True).click()
    page.get_by_role("option", name="State", exact=True).click()
    page.get_by_role("option", name="parked", exact=True).click()
    page.keyboard.press("Escape")
    assert violations(page) == []
    sheet.get_by_role("button", name="Show the rows").click()
    expect(page.get_by_role("button", name="Filters (1)")).to_be_visible()
    expect(row_of(grid, "A7001")).to_have_count(0)
    row_of(grid, "A7003").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Message")
