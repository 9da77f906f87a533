"""
The tasks of an interface analyst, with a mouse whose clicks are counted, and by keyboard alone.

The limits are promises of the console: fifteen clicks for an odd sender or receiver, one for the
question where an order is.
"""

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.acceptance.wire import Sender, control_id, sink
from tests.browser.checked_pages import window
from tests.browser.console.hands import Hands, Keyboard, Mouse
from tests.browser.console.hospital import (
    ANALYST,
    REFUSED_ACCESSION,
    WITHOUT_MODALITY,
    Hospital,
    hospital_order,
    opened,
)
from tests.browser.console_client import enter
from tests.eventually import eventually

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ODD_LIMIT, WHERE_LIMIT, FIX_LIMIT = 15, 1, 15


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hospital]:
    with opened(tmp_path_factory.mktemp("hospital")) as hospital:
        yield hospital


@pytest.fixture(params=[Mouse, Keyboard])
def hands(request: pytest.FixtureRequest, chromium: Browser) -> Iterator[Hands]:
    with window(chromium) as page:
        yield request.param(page)


def within(hands: Hands, limit: int) -> bool:
    """True if a mouse was not pressed more often than `limit`."""
    return not isinstance(hands, Mouse) or hands.clicks <= limit


def heading(page: Page, text: str) -> None:
    expect(page.get_by_role("heading", level=1)).to_contain_text(text)


def send_orders(hospital: Hospital, code: str, numbers: range) -> list[str]:
    """Send orders with a code in OBR-24 that has no entry; return their accession numbers."""
    with Sender(hospital.house.mllp_port) as sender:
        for number in numbers:
            sender.ask(hospital_order(number, modality=code))

    def is_counted() -> bool:
        rows = hospital.do("GET", "unknown-codes")["rows"]
        return [row["count"] for row in rows if row["code"] == code] == [len(numbers)]

    eventually(is_counted)
    return [f"A{number}" for number in numbers]


def newest_job(hospital: Hospital) -> dict[str, Any]:
    """Return the newest background job; empty until it has ended."""
    job: dict[str, Any] = hospital.do("GET", "background-jobs")["rows"][0]
    return job if job["finished_at"] else {}


def test_where_is_an_order(hospital: Hospital, hands: Hands) -> None:
    """Why has the RIS no result? One sentence, and one press to what the receiver said."""
    page = hands.page
    hospital.rows("orders", number=REFUSED_ACCESSION, kind="order")
    enter(page, hospital, ANALYST, "messages")
    expect(page.get_by_role("navigation").get_by_role("link", name="Orders")).to_be_visible()
    hands.press("/")
    hands.write_here(page.get_by_role("combobox", name="Search"), REFUSED_ACCESSION)
    hands.press("Enter")
    said = page.get_by_role("main").get_by_role("heading", level=2).first
    expect(said).to_contain_text("ris has it")
    expect(said).to_contain_text("his")
    expect(said).to_contain_text("Table value not found at OBR-4")
    hands.click(page.get_by_role("link", name="Open delivery"))
    heading(page, "final to his")
    tree = page.get_by_role("tree", name="Message")
    expect(tree.get_by_role("treeitem", selected=True)).to_contain_text("OBR-4")
    expect(page.get_by_role("main")).to_contain_text("Unknown code 71250")
    assert within(hands, WHERE_LIMIT), hands


def test_an_odd_receiver(hospital: Hospital, hands: Hands) -> None:
    """A receiver of HL7 2.3 with a name of its own in MSH-5 gets its results as it wants them."""
    page = hands.page
    name = f"old-{type(hands).__name__.lower()}"
    accession = {"old-mouse": "A8010", "old-keyboard": "A8011"}[name]
    with sink() as old:
        enter(page, hospital, ANALYST, "overview")
        expect(page.get_by_role("navigation").get_by_role("link", name="Orders")).to_be_visible()
        hands.press("g", "c")
        heading(page, "Connections")
        hands.click(page.get_by_role("button", name="New", exact=True))
        hands.click(page.get_by_role("menuitem", name="New destination"))
        form = page.get_by_role("main")
        hands.write_here(form.get_by_label("Name", exact=True), name)
        hands.write(form.get_by_label("Host and port"), f"127.0.0.1:{old.port}")
        fields = form.get_by_label("Header fields (MSH and others)")
        hands.write(fields, "receiving_application = OLDIE")
        hands.choose(form.get_by_label("HL7 version"), "2.3")
        hands.click(form.get_by_role("button", name="Test connection"))
        expect(form.get_by_text("Stays open")).to_be_visible()
        hands.write(form.get_by_label("Reason"), "an old receiver")
        hands.click(form.get_by_role("button", name="Save and activate"))
        heading(page, name)
        expect(form.get_by_text("running", exact=True)).to_be_visible()
        mrn = accession.replace("A", "M")
        hospital.house.draft(mrn, accession, "No acute finding.")
        hospital.house.sign(mrn, accession)
        (result,) = old.wait(1)
        header = result.split(b"\r")[0].split(b"|")
        assert (header[4], header[11]) == (b"OLDIE", b"2.3"), control_id(result)
    assert within(hands, ODD_LIMIT), hands


def test_messages_that_lost_their_modality(hospital: Hospital, hands: Hands) -> None:
    """They are found since Monday, their code gets an entry, and exactly they are replayed."""
    page = hands.page
    code, value, first = {Mouse: ("25", "CT", 8071), Keyboard: ("26", "MR", 8073)}[type(hands)]
    begin = time.time_ns() // 1_000_000
    concerned = send_orders(hospital, code, range(first, first + 2))
    enter(page, hospital, ANALYST, "overview")
    expect(page.get_by_role("navigation").get_by_role("link", name="Orders")).to_be_visible()
    hands.press("g", "m")
    heading(page, "Messages")
    hands.click(page.get_by_role("button", name="Views"))
    hands.click(page.get_by_role("option", name="Lost modality"))
    expect(page).to_have_url(re.compile("since=monday"))
    page.goto(page.url.replace("since=monday", f"since={begin}"))  # Monday may begin just now
    grid = page.get_by_role("grid", name="Messages")
    for accession in concerned:
        expect(grid.get_by_role("row").filter(has_text=accession)).to_be_visible()
    expect(grid.get_by_role("row").filter(has_text="A80")).to_have_count(len(concerned))
    hands.press("g", "p")
    heading(page, "Mappings")
    hands.click(page.get_by_role("tab", name="Unmapped codes"))
    codes = page.get_by_role("grid", name="Unmapped codes")
    hands.click(codes.get_by_role("button", name=f"Add an entry {code}"))
    hands.write_here(page.get_by_label(f"Value for {code}"), value)
    hands.press("Enter")
    hands.click(page.get_by_role("button", name="Open the definition"))
    hands.click(page.get_by_role("button", name="Activate …"))
    hands.write_here(page.get_by_label("Reason"), f"the sender writes {code} for {value}")
    hands.click(page.get_by_role("button", name="Activate orders"))
    offered = page.get_by_role("dialog", name="Replay the messages concerned?")
    expect(offered).to_contain_text(f"OBR-24 {code} → {value}")
    hands.click(offered.get_by_role("button", name="Find them"))
    heading(page, "Messages")
    expect(grid.get_by_role("row").filter(has_text="A80")).to_have_count(len(concerned))
    hands.click(grid.get_by_role("checkbox", name="Select all loaded rows"))
    chosen = page.get_by_role("group", name="Selection")
    expect(chosen).to_contain_text(f"{len(concerned)} selected")
    hands.click(chosen.get_by_role("button", name="Replay"))
    question = page.get_by_role("alertdialog")
    hands.write_here(question.get_by_label("Reason"), "their modality has an entry now")
    hands.press("Enter")
    eventually(lambda: not any(hospital.has_lost("Modality", name) for name in concerned))
    assert all(hospital.has_lost("Modality", name) for name in WITHOUT_MODALITY)
    job = eventually(lambda: newest_job(hospital))
    assert (job["kind"], job["succeeded"]) == ("replay", len(concerned))
    assert within(hands, FIX_LIMIT), hands
