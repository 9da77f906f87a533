"""
The steps of docs/tutorial/index.md: a second sender, mapped in the console only.

The tests depend on their order. `REPORT_BRIDGE_WRITE_PICTURES=1` writes the pictures of the
tutorial.
"""

import io
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect

from mappings.hl7.batch import messages_in
from tests.acceptance.wire import Sender, Sink, sink
from tests.browser.axe import violations
from tests.browser.checked_pages import BROWSER_PATIENCE
from tests.browser.mappings.conftest import (
    ADMINISTRATOR,
    MappingConsole,
    editor,
    enter,
    fits,
    rewrite,
    saved,
)
from tests.eventually import eventually

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[3]
TUTORIAL = ROOT / "docs" / "tutorial" / "index.md"
FOLDER = ROOT / "docs" / "tutorial"
WRITE = os.environ.get("REPORT_BRIDGE_WRITE_PICTURES") == "1"
COLOURS = 256
ADOPTERS = 3  # receiving, applying and delivery, each logs it


@pytest.fixture(scope="module")
def window(chromium: Browser) -> Iterator[Page]:
    context = chromium.new_context(
        viewport={"width": 1280, "height": 720}, locale="en-GB", color_scheme="dark"
    )
    page = context.new_page()
    page.set_default_timeout(BROWSER_PATIENCE)
    yield page
    context.close()


def picture(page: Page, name: str) -> None:
    """Check layout and accessibility of a page; write its picture if requested."""
    assert fits(page), name
    assert (name, violations(page)) == (name, [])
    file = FOLDER / f"{name}.png"
    assert f"({name}.png)" in TUTORIAL.read_text("utf-8"), name
    if WRITE:
        page.mouse.move(0, 719)
        with Image.open(io.BytesIO(page.screenshot())) as shot:
            shot.convert("RGB").quantize(COLOURS).save(file, optimize=True)
    assert file.exists(), name


def wait_for_activation(console: MappingConsole) -> None:
    """Wait until all parts of the service use the first activation."""
    eventually(lambda: console.house.log().count(" activation applied ") >= ADOPTERS)


def send(console: MappingConsole, file: str) -> bytes:
    (message,) = messages_in((FOLDER / file).read_bytes())
    with Sender(console.house.mllp_port) as sender:
        reply = sender.ask(message)
    assert reply is not None
    return reply


def test_1_active_definitions(console: MappingConsole, window: Page) -> None:
    enter(window, console, ADMINISTRATOR)
    definitions = window.get_by_role("grid", name="Definitions")
    expect(definitions.get_by_role("row").filter(has_text="patients")).to_contain_text("service")
    picture(window, "1-definitions")


def test_2_a_proposal_from_samples(console: MappingConsole, window: Page) -> None:
    """Inference finds delimiters, charset, accession and Z segment in six messages."""
    window.get_by_role("button", name="New", exact=True).click()
    window.get_by_role("menuitem", name="New definition from messages").click()
    files = window.get_by_role("main").locator("input[type=file]")
    files.set_input_files(FOLDER / "samples.hl7")
    window.get_by_role("button", name="Propose a definition").click()
    expect(window.get_by_text("Based on 6 messages (0 could not be read)")).to_be_visible()
    proposal = window.get_by_role("figure", name="Proposed definition")
    expect(proposal).to_contain_text("OBR-3.2: 6 of 6 groups, 6 different values")
    window.get_by_label("Definition name").fill("ris-c")
    picture(window, "2-proposal")
    window.get_by_role("button", name="Create draft").click()


def test_3_the_preview_shows_the_mistake(console: MappingConsole, window: Page) -> None:
    """The preview shows the insurance number as patient number, and PID-2 as not used."""
    expect(window.get_by_text("6 of 6 accepted")).to_be_visible()
    expect(window.get_by_role("region", name="Result")).to_contain_text("INS44901")
    unread = window.get_by_role("treeitem").locator('[data-place="PID-2"]')
    expect(unread).to_have_class(re.compile("unread"))
    picture(window, "3-preview")


def test_4_the_draft_is_corrected(console: MappingConsole, window: Page) -> None:
    """The preview updates after each corrected line."""
    rewrite(window, "PatientMRN:", "PatientMRM: {from: PID-2.1, required: true}")
    problems = window.get_by_role("region", name="Problems")
    expect(problems.get_by_role("button").first).to_contain_text("did you mean 'PatientMRN'?")
    expect(window.get_by_role("button", name="Activate …")).to_be_disabled()
    picture(window, "4-mistake")
    rewrite(window, "PatientMRM:", "PatientMRN: {from: PID-2.1, required: true}")
    rewrite(window, "ZRM_2_1:", "ReadingRoom: ZRM-2.1")
    rewrite(window, "ZRM_3_1:", "Protocol: ZRM-3.1")
    rewrite(window, "ZRM_4_1:", "Price: ZRM-4.1")
    saved(window)
    result = window.get_by_role("region", name="Result")
    expect(result).to_contain_text(re.compile(r"ReadingRoom\s*Room 3"))
    expect(result).to_contain_text(re.compile(r"PatientMRN\s*S901"))
    expect(result).to_contain_text(re.compile(r"Accession\s*S26-901"))
    expect(result).to_contain_text("Šimák^Zoë")
    expect(result).to_contain_text("60 €")
    picture(window, "5-draft")


def test_5_comparison_with_stored_messages(console: MappingConsole, window: Page) -> None:
    """No stored message gives a different result, because none is of this sender."""
    window.get_by_role("tab", name="Compare").click()
    window.get_by_role("button", name="Compare results").click()
    expect(window.get_by_text("0 of 3 messages give a different result.")).to_be_visible()
    picture(window, "6-compare")


def test_6_activation(console: MappingConsole, window: Page) -> None:
    """The definition is activated with a reason, at the first position of the listener."""
    window.get_by_role("button", name="Activate …").click()
    window.get_by_label("Reason").fill("A second sender: RISC of SOUTH")
    window.get_by_role("checkbox", name="orders").check()
    picture(window, "7-activate")
    window.get_by_role("button", name="Activate ris-c").click()
    expect(window.get_by_text("active since")).to_be_visible()


def test_7_orders_of_the_new_sender(console: MappingConsole, window: Page) -> None:
    """An order of the new sender is acknowledged, mapped, and on the worklist."""
    wait_for_activation(console)
    assert b"MSA$AA$RC907" in send(console, "order.hl7")
    console.house.settle()
    changes = console.house.get("/api/report/changes", limit=500)["changes"]
    (tags,) = [
        order for one in changes for order in one["orders"] if order["Accession"] == "S26-907"
    ]
    assert (tags["PatientMRN"], tags["PatientName"]) == ("S907", "Šebesta^Chloë")
    kept = {key: tags["Metadata"][key] for key in ("ReadingRoom", "Protocol", "Price")}
    assert kept == {"ReadingRoom": "Room 3", "Protocol": "Contrast after 40 s", "Price": "60 €"}
    window.goto(f"{console.house.url}/console/mappings/ris-c")
    window.get_by_role("button", name="Last 10 stored").click()
    result = window.get_by_role("region", name="Result")
    expect(result).to_contain_text(re.compile(r"Accession\s*S26-907"))
    picture(window, "8-in-force")


def test_8_rollback(console: MappingConsole, window: Page) -> None:
    """A second version is activated and rolled back."""
    editor(window, "ris-c.yaml")
    rewrite(window, "Price:", "Price: ZRM-5")
    saved(window)
    window.get_by_role("button", name="Activate …").click()
    window.get_by_label("Reason").fill("The price has moved, they say")
    window.get_by_role("button", name="Activate ris-c").click()
    window.get_by_role("tab", name="History").click()
    expect(window.get_by_role("row")).to_have_count(3)
    window.get_by_role("button", name="Roll back …").click()
    window.get_by_label("Reason").fill("It has not")
    window.get_by_role("button", name="Roll back", exact=True).click()
    newest = window.get_by_role("row").nth(1)
    expect(newest).to_contain_text("rolled back")
    expect(newest).to_contain_text("It has not")
    expect(window.get_by_role("row")).to_have_count(4)
    picture(window, "9-history")


@pytest.fixture(scope="module")
def street() -> Iterator[Sink]:
    """The receiver of the destination `street`."""
    with sink() as running:
        yield running


def result(console: MappingConsole, street: Sink, accession: str) -> str:
    """Sign the report of an order; return the result that the destination gets."""
    console.house.draft("S907", accession, "No fracture.")
    console.house.sign("S907", accession)
    return street.wait(1)[-1].decode()


def test_9_a_second_receiver(console: MappingConsole, window: Page, street: Sink) -> None:
    """The form checks while the user types, tests the connection, and starts the destination."""
    window.get_by_role("link", name="Connections").click()
    window.get_by_role("button", name="New", exact=True).click()
    window.get_by_role("menuitem", name="New destination").click()
    expect(window.get_by_role("heading", level=1)).to_have_text("New destination")
    form = window.get_by_role("main")
    form.get_by_label("Name", exact=True).fill("street")
    form.get_by_label("Host and port").fill("127.0.0.1")
    expect(form.get_by_text('write "host:port"')).to_be_visible()
    form.get_by_label("Host and port").fill(f"127.0.0.1:{street.port}")
    expect(form.get_by_text('write "host:port"')).to_have_count(0)
    form.get_by_label("Header fields (MSH and others)").fill("receiving_application = STREET")
    form.get_by_label("Text layout").select_option("repetitions")
    form.get_by_role("button", name="Test connection").click()
    expect(form.get_by_text("Stays open")).to_be_visible()
    form.get_by_label("Reason").fill("Results for the department across the street")
    picture(window, "10-destination")
    form.get_by_role("button", name="Save and activate").click()
    expect(window.get_by_role("heading", level=1)).to_have_text("street")
    expect(form.get_by_text("running", exact=True)).to_be_visible()
    expect(form.get_by_role("figure", name="Results by outcome")).to_be_visible()
    picture(window, "11-connections")
    logged(console, "connected", 1)
    message = result(console, street, "S26-907")
    assert "|STREET|" in message.split("\r")[0]
    assert "No fracture." in message


def logged(console: MappingConsole, event: str, times: int) -> None:
    """Wait until the log has `times` events of the destination."""
    eventually(lambda: len(re.findall(rf" {event} .*street", console.house.log())) >= times)


def test_10_disable_and_rollback(console: MappingConsole, window: Page) -> None:
    """The form disables the destination, and a rollback enables it."""
    form = window.get_by_role("main")
    form.get_by_role("tab", name="Settings").click()
    form.get_by_role("checkbox", name="Enabled").uncheck()
    form.get_by_label("Reason for the audit trail").fill("They move house")
    form.get_by_role("button", name="Save and activate").click()
    expect(window.locator("main header").get_by_text("off", exact=True)).to_be_visible()
    logged(console, "disconnected", 1)
    form.get_by_role("tab", name="History").click()
    past = form.get_by_role("table", name="Settings history")
    expect(past.get_by_role("row")).to_have_count(3)  # with the head
    picture(window, "12-one-step-back")
    form.get_by_role("button", name="Roll back one version").click()
    question = window.get_by_role("alertdialog", name="Roll back street?")
    question.get_by_label("Reason").fill("They are there again")
    question.get_by_role("button", name="Roll back one version").click()
    expect(form.get_by_text("running", exact=True)).to_be_visible()
    logged(console, "connected", 2)


def test_the_tutorial_uses_the_texts_of_the_console() -> None:
    """Each button and label that the tutorial names exists in the console."""
    catalogues = (ROOT / "web" / "src" / "console" / "texts").glob("*.json")
    known = {text for file in catalogues for text in texts(json.loads(file.read_text("utf-8")))}
    named = re.findall(r"\*\*(.+?)\*\*", TUTORIAL.read_text("utf-8"))
    assert len(named) > 10
    assert [item for item in named if item not in known] == []


def texts(words: dict[str, Any]) -> Iterator[str]:
    for value in words.values():
        if isinstance(value, dict):
            yield from texts(value)
        else:
            yield value.replace("{count}", "10").replace("{name}", "ris-c")
