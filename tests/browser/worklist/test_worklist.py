"""The worklist in Chromium: found, moved through by keyboard, opened, assigned, kept up to date."""

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.reading_room import ReadingRoom
from tests.browser.signing_in import ADA, REA, admit, enrol, order

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def worklist(room: ReadingRoom, page: Page) -> Page:
    """An administrator's worklist of three orders."""
    enrol(room)
    for number in (1, 2, 3):
        order(room, number, StudyDescription=f"Study {number}")
    admit(page, room)
    expect(rows(page)).to_have_count(3)
    return page


def rows(page: Page) -> Locator:
    """Every row that shows a report."""
    return page.locator("[role=row][data-report]")


def test_the_oldest_order_comes_first_and_enter_opens_it(room: ReadingRoom, worklist: Page) -> None:
    """To read: oldest first. By keyboard alone from the list to the open report."""
    expect(worklist.locator("[role=grid]")).to_be_focused()
    worklist.keyboard.press("ArrowDown")
    expect(worklist.locator("[aria-selected=true]")).to_contain_text("Study 2")
    worklist.keyboard.press("Enter")
    worklist.wait_for_url("**/reporting/report/*")
    expect(worklist.get_by_text("PATIENT, 002").first).to_be_visible()
    assert room.status("A2", "P2") == "Draft"
    worklist.go_back()
    expect(rows(worklist)).to_have_count(2)
    worklist.keyboard.press("2")
    expect(rows(worklist)).to_have_count(1)
    expect(rows(worklist)).to_contain_text("Study 2")


def test_an_urgent_order_is_marked(room: ReadingRoom, page: Page) -> None:
    """STAT is written beside the order that has the priority S, and beside no other."""
    enrol(room)
    order(room, 1, Metadata={"Priority": "S"})
    order(room, 2, Metadata={"Priority": "R"})
    admit(page, room)
    expect(rows(page)).to_have_count(2)
    expect(page.locator(".priority")).to_have_text(["STAT"])
    expect(page.locator("[data-report]", has_text="STAT")).to_contain_text("PATIENT, 001")


def test_a_new_order_appears_without_reload(room: ReadingRoom, worklist: Page) -> None:
    """While somebody looks: an order comes, another one is cancelled."""
    order(room, 4, StudyDescription="Study 4")
    expect(rows(worklist)).to_have_count(4)
    identity = {"SiteID": "SITE1", "PatientMRN": "P1", "Accession": "A1"}
    room.call("POST", "report/delete", {"clinicalInfo": identity})
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
    worklist.get_by_label("Search").fill("nobody")
    expect(worklist.get_by_text("No reports found.")).to_be_visible()


def test_columns_sort_and_status_filters(room: ReadingRoom, worklist: Page) -> None:
    """A click on a heading sorts, a second one turns the order round."""
    worklist.get_by_role("button", name="Patient").click()
    expect(rows(worklist).first).to_contain_text("PATIENT, 001")
    worklist.get_by_role("button", name="Patient").click()
    expect(rows(worklist).first).to_contain_text("PATIENT, 003")
    expect(worklist.get_by_role("columnheader", name="Patient")).to_have_attribute(
        "aria-sort", "descending"
    )
    worklist.get_by_label("Status").select_option("Draft")
    expect(worklist.get_by_text("No reports found.")).to_be_visible()


def test_linked_orders_are_one_row(room: ReadingRoom, worklist: Page) -> None:
    """The anchor speaks for the group; the row says how many more there are."""
    tags = {"PatientName": "PATIENT^001", "StudyDescription": "Study 9"}
    room.launch("A9", mrn="P1", lazyLaunch=True, registerOrder=True, tags=tags)
    expect(rows(worklist)).to_have_count(4)
    linked = [{"PatientMRN": "P1", "Accession": each} for each in ("A1", "A9")]
    room.call("POST", "report/link-orders", {"SiteID": "SITE1", "clinicalInfo": linked})
    expect(rows(worklist)).to_have_count(3)
    expect(rows(worklist).filter(has_text="+ 1 linked")).to_contain_text("Study 1")


def test_an_administrator_assigns_by_keyboard(room: ReadingRoom, worklist: Page) -> None:
    """A, choose, Enter: the order is the reader's Draft; and back to the worklist."""
    worklist.keyboard.press("a")
    worklist.get_by_label("Reader").select_option(REA)
    worklist.get_by_role("button", name="Assign", exact=True).press("Enter")
    expect(rows(worklist)).to_have_count(2)
    assert room.status("A1", "P1") == "Draft"
    worklist.keyboard.press("5")
    expect(rows(worklist).filter(has_text="Rea")).to_have_count(1)
    worklist.keyboard.press("a")
    worklist.get_by_role("button", name="Back to the worklist").click()
    expect(rows(worklist).filter(has_text="Rea")).to_have_count(0)
    assert room.status("A1", "P1") == "Ordered"


def test_preliminary_reads_queue_by_group_and_tag(room: ReadingRoom, worklist: Page) -> None:
    """Longest waiting first; only those of the chosen group and tag."""
    for name, tags in (("Night", ["Resident", "Fellow"]), ("Day", ["Resident"])):
        room.call("POST", "admin/sites/SITE1/prelim-groups", {"name": name, "tags": tags})
    for number, group, tag in ((3, "Night", "Fellow"), (1, "Night", "Resident")):
        room.launch(f"A{number}", mrn=f"P{number}", who=REA)
        body = {
            "clinicalInfo": {
                "SiteID": "SITE1",
                "PatientMRN": f"P{number}",
                "Accession": f"A{number}",
            },
            "prelimGroup": group,
            "prelimTag": tag,
        }
        room.call("POST", "report/prelim", body)
    worklist.reload()
    worklist.get_by_role("button", name="Preliminary reads").click()
    expect(rows(worklist)).to_have_count(2)
    expect(rows(worklist).first).to_contain_text("Study 3")
    worklist.get_by_label("Prelim group").select_option(label="Night · Resident")
    expect(rows(worklist)).to_have_count(1)
    expect(rows(worklist)).to_contain_text("Night · Resident")


def test_a_radiologist_assigns_nothing(room: ReadingRoom, page: Page) -> None:
    """Only site administrators assign; the key does nothing for others."""
    enrol(room)
    order(room, 1)
    admit(page, room, REA)
    expect(rows(page)).to_have_count(1)
    page.keyboard.press("a")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("link", name="Administration")).to_have_count(0)


def test_a_long_list_is_scrolled_to_its_end(room: ReadingRoom, page: Page) -> None:
    """Thousands of orders: few rows in the page, End asks for the last ones alone."""
    enrol(room)
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
        room.call("POST", "report/launch/clinical/batch", batch)
    admit(page, room)
    expect(page.get_by_text("3,000 reports")).to_be_visible()
    assert rows(page).count() < 100
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.keyboard.press("End")
    expect(page.locator("[aria-selected=true]")).to_contain_text("Study 2999")
    assert len([url for url in asked if "/rows?" in url]) <= 2, asked
    assert rows(page).count() < 100


def test_the_list_survives_a_server_that_goes_away(room: ReadingRoom, worklist: Page) -> None:
    """It says so, and is right again without a reload once the server is back."""
    room.stop()
    worklist.get_by_role("button", name="All").click()
    expect(worklist.get_by_role("alert")).to_contain_text("cannot be reached")
    room.start()
    order(room, 4)
    worklist.get_by_role("button", name="Try again").click()
    expect(rows(worklist)).to_have_count(4)
    order(room, 5)
    expect(rows(worklist)).to_have_count(5)


def test_the_account_of_the_session_decides(room: ReadingRoom, worklist: Page) -> None:
    """A Draft of another user asks before it changes hands."""
    room.launch("A1", mrn="P1", who=REA)
    worklist.keyboard.press("5")
    expect(rows(worklist).filter(has_text="Rea")).to_have_count(1)
    worklist.get_by_text("Study 1").click()
    worklist.wait_for_url("**/reporting/report/*")
    proceed = worklist.get_by_role("button", name="Proceed")
    expect(proceed).to_be_visible()
    proceed.click()
    expect(worklist.get_by_text("PATIENT, 001").first).to_be_visible()
    assert ADA in room.call("GET", "worklist?SiteID=SITE1&Accession=A1").text


def test_back_at_the_row_that_was_opened(room: ReadingRoom, worklist: Page) -> None:
    """By the report's key and by the browser's way back: same view, row and focus."""
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


def test_sign_and_next(room: ReadingRoom, worklist: Page) -> None:
    """The report is signed and the next one of the list is open; after the last, the worklist."""
    worklist.keyboard.press("ArrowDown")
    worklist.keyboard.press("Enter")
    expect(worklist.get_by_text("PATIENT, 002").first).to_be_visible()
    worklist.locator("#text").focus()
    worklist.keyboard.type("Normal.")
    worklist.keyboard.press("Control+Shift+Enter")
    expect(worklist.get_by_text("PATIENT, 003").first).to_be_visible()
    assert room.status("A2", "P2") == "Final"
    worklist.locator("#text").focus()
    worklist.keyboard.type("See [where].")
    worklist.locator("#sign-next").click()
    worklist.locator("#sign-anyway").click()
    worklist.wait_for_url("**/reporting/worklist")
    assert room.status("A3", "P3") == "Final"
    expect(rows(worklist)).to_have_count(1)
    expect(worklist.locator("[aria-selected=true]")).to_contain_text("Study 1")
