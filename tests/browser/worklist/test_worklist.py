"""The worklist in Chromium: search, keyboard, opening, assignment, live updates."""

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.engine_server import EngineServer
from tests.browser.signing_in import ADA, REA, enrol, open_signed_in, order
from tests.eventually import eventually

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def worklist(engine: EngineServer, page: Page) -> Page:
    enrol(engine)
    for number in (1, 2, 3):
        order(engine, number, StudyDescription=f"Study {number}")
    open_signed_in(page, engine)
    expect(rows(page)).to_have_count(3)
    return page


def rows(page: Page) -> Locator:
    return page.locator("[role=row][data-report]")


def test_the_oldest_order_comes_first_and_enter_opens_it(
    engine: EngineServer, worklist: Page
) -> None:
    """The oldest order is first; arrow keys and Enter open a report."""
    expect(worklist.locator("[role=grid]")).to_be_focused()
    worklist.keyboard.press("ArrowDown")
    expect(worklist.locator("[aria-selected=true]")).to_contain_text("Study 2")
    worklist.keyboard.press("Enter")
    worklist.wait_for_url("**/reporting/report/*")
    expect(worklist.get_by_text("PATIENT, 002").first).to_be_visible()
    eventually(lambda: engine.status("A2", "P2") == "Draft")
    worklist.keyboard.type("Begun.")
    worklist.go_back()
    expect(rows(worklist)).to_have_count(2)
    worklist.keyboard.press("2")
    expect(rows(worklist)).to_have_count(1)
    expect(rows(worklist)).to_contain_text("Study 2")


def test_an_order_that_is_only_looked_at_returns(engine: EngineServer, worklist: Page) -> None:
    """An order that was opened and left without a word is to be read again, by itself."""
    worklist.locator("[data-report]", has_text="Study 2").click()
    expect(worklist.locator("#text")).to_have_attribute("contenteditable", "true")
    eventually(lambda: engine.status("A2", "P2") == "Draft")
    worklist.click("#to-worklist")
    expect(rows(worklist)).to_have_count(3)
    assert engine.status("A2", "P2") == "Ordered"
    worklist.locator("[data-report]", has_text="Study 3").click()
    expect(worklist.locator("#text")).to_have_attribute("contenteditable", "true")
    worklist.close()
    eventually(lambda: engine.status("A3", "P3") == "Ordered")


def test_an_urgent_order_is_marked(engine: EngineServer, page: Page) -> None:
    """Only an order with priority S shows STAT."""
    enrol(engine)
    order(engine, 1, Metadata={"Priority": "S"})
    order(engine, 2, Metadata={"Priority": "R"})
    open_signed_in(page, engine)
    expect(rows(page)).to_have_count(2)
    expect(page.locator(".priority")).to_have_text(["STAT"])
    expect(page.locator("[data-report]", has_text="STAT")).to_contain_text("PATIENT, 001")


@pytest.mark.parametrize("width", [1440, 390])
def test_an_urgent_order_comes_first(engine: EngineServer, page: Page, width: int) -> None:
    """A new STAT order is on top of older ones, marked in the list and in its report."""
    page.set_viewport_size({"width": width, "height": 800})
    enrol(engine)
    for number in range(1, 30):
        order(engine, number, Modality="CT", Metadata={"Priority": "R"})
    open_signed_in(page, engine)
    expect(page.get_by_role("row").nth(1)).to_contain_text("PATIENT, 001")
    order(engine, 30, Modality="MR", Metadata={"Priority": "STAT"})
    expect(page.get_by_role("row").nth(1)).to_contain_text("PATIENT, 030")
    expect(page.get_by_role("row").nth(1).locator(".priority")).to_have_text("STAT")
    order(engine, 29, Metadata={"Priority": "A"})  # an order change
    expect(page.get_by_role("row").nth(2)).to_contain_text("PATIENT, 029")
    page.get_by_label("Priority").select_option("A")
    expect(rows(page)).to_have_count(1)
    page.get_by_label("Priority").select_option("")
    page.get_by_label("Modality").select_option("MR")
    expect(rows(page)).to_have_count(1)
    page.get_by_role("grid").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/reporting/report/*")
    expect(page.locator("header .priority")).to_have_text("STAT")
    expect(page.locator("header .priority")).to_be_visible()


def test_the_priority_column_sorts(engine: EngineServer, page: Page) -> None:
    """A click on Priority sorts, and a second click reverses the order."""
    enrol(engine)
    for number, priority in enumerate(("R", "S", "A"), 1):
        order(engine, number, Metadata={"Priority": priority})
    open_signed_in(page, engine)
    expect(page.locator("[role=grid]")).to_be_focused()
    page.keyboard.press("5")
    expect(rows(page)).to_have_count(3)
    heading = page.get_by_role("columnheader", name="Priority")
    expect(heading).to_have_attribute("aria-sort", "none")
    heading.get_by_role("button").click()
    expect(heading).to_have_attribute("aria-sort", "ascending")
    expect(rows(page).first).to_contain_text("PATIENT, 002")
    heading.get_by_role("button").click()
    expect(rows(page).first).to_contain_text("PATIENT, 001")


def test_a_new_order_appears_without_reload(engine: EngineServer, worklist: Page) -> None:
    """An open worklist shows a new order and removes a cancelled one."""
    order(engine, 4, StudyDescription="Study 4")
    expect(rows(worklist)).to_have_count(4)
    identity = {"SiteID": "SITE1", "PatientMRN": "P1", "Accession": "A1"}
    engine.call("POST", "report/delete", {"clinicalInfo": identity})
    expect(rows(worklist)).to_have_count(3)


def test_search_finds_by_name_and_number(worklist: Page) -> None:
    """`/` goes to the search, Enter back to the list; Escape empties it."""
    worklist.keyboard.press("/")
    worklist.keyboard.type("study 3")
    expect(rows(worklist)).to_have_count(1)
    worklist.keyboard.press("Enter")
    expect(worklist.locator("[role=grid]")).to_be_focused()
    worklist.get_by_label("Search").fill("P2")
    expect(rows(worklist)).to_contain_text("Study 2")
    worklist.get_by_label("Search").fill("unknown")
    expect(worklist.get_by_text("No reports found.")).to_be_visible()


def test_columns_sort_and_status_filters(engine: EngineServer, worklist: Page) -> None:
    """A click on a heading sorts, and a second click reverses the order."""
    worklist.get_by_role("button", name="Patient").click()
    expect(rows(worklist).first).to_contain_text("PATIENT, 001")
    worklist.get_by_role("button", name="Patient").click()
    expect(rows(worklist).first).to_contain_text("PATIENT, 003")
    expect(worklist.get_by_role("columnheader", name="Patient")).to_have_attribute(
        "aria-sort", "descending"
    )
    worklist.get_by_label("Status").select_option("Draft")
    expect(worklist.get_by_text("No reports found.")).to_be_visible()


def test_linked_orders_are_one_row(engine: EngineServer, worklist: Page) -> None:
    tags = {"PatientName": "PATIENT^001", "StudyDescription": "Study 9"}
    engine.launch("A9", mrn="P1", lazyLaunch=True, registerOrder=True, tags=tags)
    expect(rows(worklist)).to_have_count(4)
    linked = [{"PatientMRN": "P1", "Accession": accession} for accession in ("A1", "A9")]
    engine.call("POST", "report/link-orders", {"SiteID": "SITE1", "clinicalInfo": linked})
    expect(rows(worklist)).to_have_count(3)
    expect(rows(worklist).filter(has_text="+ 1 linked")).to_contain_text("Study 1")


def test_an_administrator_assigns_by_keyboard(engine: EngineServer, worklist: Page) -> None:
    """The key A assigns an order to a reader as Draft, and unassigns it."""
    worklist.keyboard.press("a")
    worklist.get_by_label("Reader").select_option(REA)
    worklist.get_by_role("button", name="Assign", exact=True).press("Enter")
    expect(rows(worklist)).to_have_count(2)
    eventually(lambda: engine.status("A1", "P1") == "Draft")
    worklist.keyboard.press("5")
    expect(rows(worklist).filter(has_text="Rea")).to_have_count(1)
    worklist.keyboard.press("a")
    worklist.get_by_role("button", name="Back to the worklist").click()
    expect(rows(worklist).filter(has_text="Rea")).to_have_count(0)
    eventually(lambda: engine.status("A1", "P1") == "Ordered")


def test_preliminary_reads_queue_by_group_and_tag(engine: EngineServer, worklist: Page) -> None:
    """The longest waiting read is first; a filter selects group and tag."""
    for name, tags in (("Night", ["Resident", "Fellow"]), ("Day", ["Resident"])):
        engine.call("POST", "admin/sites/SITE1/prelim-groups", {"name": name, "tags": tags})
    for number, group, tag in ((3, "Night", "Fellow"), (1, "Night", "Resident")):
        engine.launch(f"A{number}", mrn=f"P{number}", email=REA)
        body = {
            "clinicalInfo": {
                "SiteID": "SITE1",
                "PatientMRN": f"P{number}",
                "Accession": f"A{number}",
            },
            "prelimGroup": group,
            "prelimTag": tag,
        }
        engine.call("POST", "report/prelim", body)
    worklist.reload()
    worklist.get_by_role("button", name="Preliminary reads").click()
    expect(rows(worklist)).to_have_count(2)
    expect(rows(worklist).first).to_contain_text("Study 3")
    worklist.get_by_label("Prelim group").select_option(label="Night · Resident")
    expect(rows(worklist)).to_have_count(1)
    expect(rows(worklist)).to_contain_text("Night · Resident")


def test_a_radiologist_assigns_nothing(engine: EngineServer, page: Page) -> None:
    """The key A has no effect for a user who is no site administrator."""
    enrol(engine)
    order(engine, 1)
    open_signed_in(page, engine, REA)
    expect(rows(page)).to_have_count(1)
    page.keyboard.press("a")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("link", name="Administration")).to_have_count(0)


def test_a_long_list_is_scrolled_to_its_end(engine: EngineServer, page: Page) -> None:
    """With 3,000 orders the page renders few rows, and End requests only the last ones."""
    enrol(engine)
    count = 3000
    for start in range(0, count, 500):
        batch = [
            {
                "clinicalInfo": {
                    "SiteID": "SITE1",
                    "PatientMRN": f"P{number}",
                    "Accession": f"A{number}",
                    "StudyDescription": f"Study {number}",
                },
                "reportingApp": {},
                "response": {"type": "link"},
                "lazyLaunch": True,
                "registerOrder": True,
            }
            for number in range(start, start + 500)
        ]
        engine.call("POST", "report/launch/clinical/batch", batch)
    open_signed_in(page, engine)
    expect(page.get_by_text("3,000 reports")).to_be_visible()
    assert rows(page).count() < 100
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.keyboard.press("End")
    expect(page.locator("[aria-selected=true]")).to_contain_text("Study 2999")
    assert len([url for url in requested if "/rows?" in url]) <= 2, requested
    assert rows(page).count() < 100


def test_the_list_survives_a_server_restart(engine: EngineServer, worklist: Page) -> None:
    """The list shows an error, and is current again after the restart without a reload."""
    engine.stop()
    worklist.get_by_role("button", name="All").click()
    expect(worklist.get_by_role("alert")).to_contain_text("cannot be reached")
    engine.start()
    order(engine, 4)
    worklist.get_by_role("button", name="Try again").click()
    expect(rows(worklist)).to_have_count(4)
    order(engine, 5)
    expect(rows(worklist)).to_have_count(5)


def test_opening_a_draft_of_another_user_asks(engine: EngineServer, worklist: Page) -> None:
    engine.launch("A1", mrn="P1", email=REA)
    worklist.keyboard.press("5")
    expect(rows(worklist).filter(has_text="Rea")).to_have_count(1)
    worklist.get_by_text("Study 1").click()
    worklist.wait_for_url("**/reporting/report/*")
    proceed = worklist.get_by_role("button", name="Proceed")
    expect(proceed).to_be_visible()
    proceed.click()
    expect(worklist.get_by_text("PATIENT, 001").first).to_be_visible()
    eventually(lambda: ADA in engine.call("GET", "worklist?SiteID=SITE1&Accession=A1").text)


def test_back_to_the_opened_row(engine: EngineServer, worklist: Page) -> None:
    """Alt+W and the browser's Back restore view, row and focus."""
    worklist.keyboard.press("5")
    worklist.get_by_role("button", name="Patient").click()
    expect(rows(worklist).first).to_contain_text("Study 1")
    worklist.locator("[role=grid]").focus()
    worklist.keyboard.press("ArrowDown")
    expect(worklist.locator("[aria-selected=true]")).to_contain_text("Study 2")
    for way_back in (lambda: worklist.keyboard.press("Alt+w"), worklist.go_back):
        worklist.keyboard.press("Enter")
        expect(worklist.locator("#text")).to_be_focused()
        way_back()
        expect(rows(worklist)).to_have_count(3)
        expect(worklist.locator("[aria-selected=true]")).to_contain_text("Study 2")
        expect(worklist.locator("[role=grid]")).to_be_focused()


def test_sign_and_next(engine: EngineServer, worklist: Page) -> None:
    """Sign and next opens the next report of the list; after the last one, the worklist."""
    worklist.keyboard.press("ArrowDown")
    worklist.keyboard.press("Enter")
    expect(worklist.get_by_text("PATIENT, 002").first).to_be_visible()
    worklist.locator("#text").focus()
    worklist.keyboard.type("Normal.")
    worklist.keyboard.press("Control+Shift+Enter")
    expect(worklist.get_by_text("PATIENT, 003").first).to_be_visible()
    eventually(lambda: engine.status("A2", "P2") == "Final")
    worklist.locator("#text").focus()
    worklist.keyboard.type("See [where].")
    worklist.locator("#sign-next").click()
    worklist.locator("#sign-anyway").click()
    worklist.wait_for_url("**/reporting/worklist")
    eventually(lambda: engine.status("A3", "P3") == "Final")
    expect(rows(worklist)).to_have_count(1)
    expect(worklist.locator("[aria-selected=true]")).to_contain_text("Study 1")


def test_an_open_addendum_is_among_the_readers_drafts(engine: EngineServer, worklist: Page) -> None:
    """A signed report with an unsigned addendum is a draft of the addendum's author."""
    worklist.locator("[data-report]", has_text="Study 2").click()
    worklist.locator("#text").press_sequentially("Normal.")
    worklist.click("#sign")
    worklist.click("#sign-now")
    worklist.click("#addendum-create")
    expect(worklist.locator("#addendum")).to_be_focused()
    worklist.keyboard.type("Correction.")
    worklist.click("#to-worklist")
    expect(worklist.locator("[role=grid]")).to_be_focused()
    worklist.keyboard.press("2")
    expect(rows(worklist)).to_have_count(1)
    expect(rows(worklist)).to_contain_text("New addendum")
    worklist.keyboard.press("Enter")
    expect(worklist.locator("#addendum")).to_have_text("Correction.")
    worklist.locator("#addendum").focus()
    worklist.keyboard.press("Control+Enter")
    expect(worklist.locator("#addendum")).to_have_count(0)
    assert engine.status("A2", "P2") == "Addendum"
    worklist.click("#to-worklist")
    expect(worklist.locator("[role=grid]")).to_be_focused()
    worklist.keyboard.press("2")
    expect(rows(worklist)).to_have_count(0)
