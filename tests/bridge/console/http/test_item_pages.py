"""The pages of a message and of a delivery: facts, content, neighbours, differences, edits."""

import json
import re
from typing import Any

import pytest
from typer.testing import CliRunner

from bridge.cli.application import application
from bridge.console.http.models.items import (
    DeliveryContent,
    DeliveryPage,
    DifferenceBody,
    MessageContent,
    MessageNeighbours,
    MessagePage,
)
from bridge.console.http.models.specifications import SpecificationBody
from bridge.queue import queries
from bridge.store.records import patient_records
from tests.acceptance.orders import order
from tests.bridge.console.http.running_console import PATIENTS, RunningConsole


def get(console: RunningConsole, who: str, path: str) -> Any:
    response = console.call(who, "GET", f"/api/{path}")
    assert response.status_code == 200, response.text
    return response.json()


def events(console: RunningConsole, subject: str) -> list[tuple[str, str]]:
    """Return person and action of the audit events about a subject, newest first."""
    rows = console.audit_events("chief", target=subject)
    return [(row["email"].partition("@")[0], row["action"]) for row in rows]


def test_the_page_of_a_message(console: RunningConsole) -> None:
    """It has the row of the list, the timeline, links to its orders, and what the user may do."""
    number = console.messages["SITE1"]
    page = get(console, "editor", f"messages/{number}")
    MessagePage.model_validate(page)
    assert (page["row"]["id"], page["row"]["listener"], page["edits"]) == (number, "orders", [])
    assert [step["kind"] for step in page["timeline"]][:2] == ["received", "waits"]
    (found,) = page["orders"]
    assert (found["site"], found["accession"], found["report_id"]) == ("SITE1", "A1", "R1")
    assert page["may"] == ["cancel", "edit", "content"]
    assert PATIENTS["SITE1"] not in str(page)


def test_a_message_of_a_merged_patient(console: RunningConsole) -> None:
    """It names the prior number, and leads to its order, which the survivor has."""
    number = console.store("orders", order(41, mrn="M41", accession="A1", name="DOE^JANE"))
    assert get(console, "editor", f"messages/{number}")["orders"] == []
    with console.database.write() as connection:
        patient_records.merge(connection, "SITE1", "M41", "M1")
    (found,) = get(console, "editor", f"messages/{number}")["orders"]
    assert (found["accession"], found["report_id"]) == ("A1", "R1")


def test_what_a_reader_of_states_sees(console: RunningConsole) -> None:
    """Without the permission to find, orders have no number; nothing may be done."""
    page = get(console, "viewer", f"messages/{console.messages['SITE1']}")
    assert ["accession" in order for order in page["orders"]] == [False]
    assert page["may"] == []
    delivery = get(console, "viewer", f"deliveries/{console.deliveries['SITE1']}")
    assert ["accession" in order for order in delivery["orders"]] == [False]
    assert delivery["may"] == []


def test_the_content_of_a_message(console: RunningConsole) -> None:
    """Text, tree, acknowledgment, calls, notes; the tree has names and meanings."""
    content = get(console, "editor", f"messages/{console.messages['SITE1']}/content")
    MessageContent.model_validate(content)
    pid = next(node for node in content["tree"] if node["place"] == "PID")
    assert pid["name"] == "Patient identification"
    assert content["ack"]["code"] == "AA"
    assert (content["calls"], content["notes"], content["damaged"]) == ([], [], False)


def test_the_errors_of_the_acknowledgment_have_places(console: RunningConsole) -> None:
    """The acknowledgment of a refused message names the node that is missing."""
    payload = order(7, name="DOE^JANE").replace(b"M7", b"")
    number = console.store("orders", payload)
    ack = get(console, "editor", f"messages/{number}/content")["ack"]
    assert ack["code"] in {"AE", "AR"}
    assert ack["errors"][0]["places"] == ["PID-3.1"]


def test_parts_that_are_read_together_are_one_event(console: RunningConsole) -> None:
    """Content, trace and sheet of one reading are one event; after five minutes it is another."""
    number = console.store("orders", order(21, name="DOE^JANE"))
    for part in ("content", "trace", "sheet", "content"):
        get(console, "editor", f"messages/{number}/{part}")
    assert events(console, f"message {number}") == [("editor", "read")]
    get(console, "chief", f"messages/{number}/content")
    console.clock.ahead += 6 * 60 * 1000
    get(console, "editor", f"messages/{number}/trace")
    assert events(console, f"message {number}") == [
        ("editor", "read"),
        ("chief", "read"),
        ("editor", "read"),
    ]


def test_neighbours_and_differences(console: RunningConsole) -> None:
    """The message before of the same order, and what changed since; both are read."""
    first = console.store("orders", order(31, name="DOE^JANE"))
    changed = order(31, name="DOE^JANE").replace(b"DOE^JANE", b"DOE^JANET")
    second = console.store("orders", changed.replace(b"|P|2", b"2|P|2"))
    console.index()
    around = get(console, "viewer", f"messages/{second}/neighbours")
    MessageNeighbours.model_validate(around)
    assert (around["order"]["previous"], around["patient"]["previous"]) == (first, first)
    found = get(console, "editor", f"messages/{second}/difference")
    DifferenceBody.model_validate(found)
    assert found["other"] == first
    rows = {row["place"]: (row["before"], row["after"]) for row in found["differences"]}
    assert rows["PID-5.2"] == ("JANE", "JANET")
    other = console.messages["SITE1"]
    assert get(console, "editor", f"messages/{second}/difference?other={other}")["other"] == other
    assert set(events(console, f"message {first}")) == {("editor", "read")}
    assert get(console, "editor", f"messages/{first}/difference") == {
        "other": None,
        "differences": [],
    }


@pytest.mark.parametrize("kind", ["messages", "deliveries"])
def test_no_comparison_with_an_item_of_another_site(console: RunningConsole, kind: str) -> None:
    """A limited user cannot compare with what is hidden, and without content with nothing."""
    own, foreign = (getattr(console, kind)[site] for site in ("SITE1", "SITE2"))
    path = f"/api/{kind}/{own}/difference?other={foreign}"
    assert console.call("editor1", "GET", path).status_code == 404
    assert console.call("viewer", "GET", path).status_code == 403
    assert console.call("editor", "GET", path).status_code == 200


def test_the_page_of_a_delivery(console: RunningConsole) -> None:
    """It has the row of the list, the orders that the result is about, and its content."""
    number = console.deliveries["SITE1"]
    page = get(console, "editor", f"deliveries/{number}")
    DeliveryPage.model_validate(page)
    assert (page["row"]["destination"], page["row"]["cause"]) == ("ris", "interrupted")
    assert [(order["accession"], order["report_id"]) for order in page["orders"]] == [("A1", "R1")]
    assert page["may"] == ["skip", "retry", "edit", "content"]
    assert PATIENTS["SITE1"] not in str(page)
    content = get(console, "editor", f"deliveries/{number}/content")
    DeliveryContent.model_validate(content)
    assert content["tree"][0]["place"] == "MSH"
    assert content["ack"] is None


def test_an_edited_delivery_is_sent_in_place_of_the_original(console: RunningConsole) -> None:
    """The copy is linked in both directions, with the person and the reason, and audited."""
    number = console.deliveries["SITE2"]
    path = f"/api/deliveries/{number}"
    segments = console.call("editor", "GET", f"{path}/sheet").json()["segments"]
    changed = [segment.replace("ROE^JOHN", "ROE^JOHNNY") for segment in segments]
    body = {"segments": changed, "reason": "spelling"}
    checked = console.call("editor", "POST", f"{path}/check", {"segments": changed})
    assert checked.json() == {"faults": []}
    copy = console.call("editor", "POST", f"{path}/send-again", body).json()["id"]
    assert console.call("editor", "POST", f"{path}/send-again", body).json()["id"] == copy
    stored = queries.delivery(console.database, copy)
    assert b"ROE^JOHNNY" in (stored.payload or b"")
    assert queries.delivery(console.database, number).row.state == "cancelled"
    pages = {row: get(console, "viewer", f"deliveries/{row}") for row in (number, copy)}
    edit = pages[copy]["edits"]
    assert edit == pages[number]["edits"]
    assert [(row["email"], row["reason"]) for row in edit] == [("editor@site1.test", "spelling")]
    links = {row: [step["link"] for step in page["timeline"]] for row, page in pages.items()}
    assert {"page": "delivery", "id": copy} in links[number]
    assert {"page": "delivery", "id": number} in links[copy]
    assert pages[number]["neighbours"] == {"previous": None, "next": copy}
    found = get(console, "editor", f"deliveries/{copy}/difference?other={number}")
    places = [row["place"] for row in found["differences"]]
    assert places == ["MSH-10", "PID-5.2"]
    assert ("editor", "send again") in events(console, f"delivery {number}")


def test_an_edit_of_a_delivery_that_cannot_be_encoded(console: RunningConsole) -> None:
    """The error names the place, and nothing is sent."""
    path = f"/api/deliveries/{console.deliveries['SITE1']}"
    refused = console.call("editor", "POST", f"{path}/check", {"segments": ["PID|1"]})
    assert (refused.status_code, refused.json()["code"]) == (400, "bad_edit")
    body = {"segments": ["PID|1"], "reason": "x"}
    assert console.call("editor", "POST", f"{path}/send-again", body).status_code == 400


def shown(console: RunningConsole, *arguments: str) -> str:
    result = CliRunner().invoke(application, [*arguments, "--home", str(console.settings.home)])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_command_shows_a_message_like_its_page(console: RunningConsole) -> None:
    """Fields with names and meanings, the acknowledgment, and with --trace the rules and lines."""
    number = str(console.messages["SITE1"])
    text = shown(console, "messages", "show", number)
    assert "PID  Patient identification\n" in text
    assert "  PID-5.1      Family name: DOE\n" in text
    assert "MSA|AA|" in text
    assert "\ntrace\n" not in text
    traced = shown(console, "messages", "show", number, "--trace")
    assert "  tag:PatientName: DOE^JANE\n" in traced
    assert re.search(r'    used: PID-5 at PID-5 "DOE\^JANE"  orders.yaml:\d+\n', traced)
    found = json.loads(shown(console, "messages", "show", number, "--trace", "--json"))
    page = get(console, "editor", f"messages/{number}/content")
    assert (found["tree"], found["calls"]) == (page["tree"], page["calls"])
    trace = get(console, "editor", f"messages/{number}/trace")
    assert found["trace"] == json.loads(json.dumps(trace))


def test_a_command_shows_a_delivery_like_its_page(console: RunningConsole) -> None:
    number = str(console.deliveries["SITE1"])
    text = shown(console, "deliveries", "show", number)
    assert "  PID-5.1      Family name: DOE\n" in text
    found = json.loads(shown(console, "deliveries", "show", number, "--json"))
    assert found["tree"] == get(console, "editor", f"deliveries/{number}/content")["tree"]
    assert (found["reply"], found["errors"], found["attempts_made"]) == ("", [], [])


SPECIFICATION = "/api/specifications/listener/orders"


def test_a_specification_is_exported(console: RunningConsole) -> None:
    """JSON is for the page, with the versions to choose; other formats are files, and audited."""
    body = console.call("viewer1", "GET", SPECIFICATION)
    found = SpecificationBody.model_validate(body.json())
    assert (found.kind, found.name, found.changes) == ("listener", "orders", None)
    active = {(used.name, used.version) for used in found.definitions if used.active_since}
    assert active == {(item.definition, item.version) for item in found.versions if item.is_active}
    assert events(console, "specification listener orders") == []
    kinds = {"html": "text/html", "pdf": "application/pdf", "text": "text/plain"}
    for name, kind in kinds.items():
        response = console.call("viewer1", "GET", f"{SPECIFICATION}?format={name}")
        assert response.headers["content-type"].startswith(kind)
        assert response.headers["content-disposition"].startswith("attachment; filename=")
        assert response.headers["cache-control"] == "no-store"
    assert ("viewer1", "export") in events(console, "specification listener orders")
    assert console.call("viewer1", "GET", f"{SPECIFICATION}?format=doc").status_code == 400
    assert console.call("viewer1", "GET", f"{SPECIFICATION}?version=ffffffff").status_code == 404
