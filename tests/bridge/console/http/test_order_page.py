"""The page of one order: what its state is, how it came to it, and who may see what."""

from typing import Any

import pytest
from sqlalchemy import text
from typer.testing import CliRunner

from bridge.cli.application import application
from bridge.console.http.models.orders import OrderPageBody
from bridge.contract import OrderKey
from bridge.delivery.change_feed import KnownReport, save
from bridge.orders.order import Order, OrderState
from bridge.queue.attempts import Attempt, AttemptKind
from bridge.queue.attempts import add as add_attempts
from bridge.store.records import order_index, report_events
from bridge.store.records.report_events import ReportEventRow
from tests.acceptance.orders import order
from tests.bridge.console.http.running_console import RunningConsole, now_ms

REPLY = (
    b"MSH|^~\\&|RIS|||||ACK|1|P|2.5.1\rMSA|AE|D1\r"
    b"ERR||OBR^1^4|103^Table value not found|E||||JANE is unknown\r"
)


@pytest.fixture(scope="module")
def told(console: RunningConsole) -> RunningConsole:
    """The report of SITE1 was opened, signed and released; its receiver refuses it three times."""
    begun = now_ms() - 4_000_000
    changes = [
        ("report_opened", "Draft", 0),
        ("report_signed", "Final", 660_000),
        ("report_finalized", "Final", 720_000),
    ]
    key = OrderKey("SITE1", "M1", "A1")
    with console.database.write() as connection:
        report_events.add(
            connection,
            [
                ReportEventRow("SITE1", "R1", begun + at, event, status, "reader@site1.test")
                for event, status, at in changes
            ],
        )
        save(connection, [KnownReport(key, "R1", "Final", True, 0, begun + 720_000)])
        connection.execute(
            text(
                "UPDATE delivery SET state = 'parked', code = 'AE', detail = '103', attempts = 3,"
                " settled_at = :at + 2100, created_at = :at WHERE id = :id"
            ),
            {"id": console.deliveries["SITE1"], "at": begun + 720_100},
        )
        add_attempts(
            connection,
            [
                Attempt(
                    console.deliveries["SITE1"],
                    AttemptKind.ATTEMPT,
                    begun + 720_100 + number * 1_000,
                    "AE",
                    "103",
                    None,
                    REPLY,
                )
                for number in range(3)
            ],
        )
    return console


def page(console: RunningConsole, who: str, order_id: int = 1) -> Any:
    response = console.call(who, "GET", f"/api/orders/{order_id}")
    assert response.status_code == 200, response.text
    return response.json()


def test_a_sentence_says_why_a_result_has_not_arrived(told: RunningConsole) -> None:
    """The examination's question: where is the order, and why has the receiver no result?"""
    found = page(told, "editor")
    OrderPageBody.model_validate(found)
    sentence = found["sentence"]
    assert "was signed" in sentence["text"]
    assert "The result for ris is parked after 3 attempts" in sentence["text"]
    assert "AE 103 Table value not found at OBR-4" in sentence["text"]
    assert sentence["waits_for"] == "person"
    assert sentence["link"] == {"page": "delivery", "id": told.deliveries["SITE1"]}


def test_a_sentence_about_an_unreadable_reply_has_no_code(told: RunningConsole) -> None:
    """A code of ours, such as `garbage`, is written in words; ERR of such a reply is not quoted."""
    with told.database.write() as connection:
        found = "UPDATE delivery SET code = :code, detail = :detail WHERE id = :id"
        row = {"id": told.deliveries["SITE1"]}
        connection.execute(text(found), row | {"code": "garbage", "detail": "unframed"})
    sentence = page(told, "editor")["sentence"]["text"]
    with told.database.write() as connection:
        connection.execute(text(found), row | {"code": "AE", "detail": "103"})
    assert "the reply is no HL7 acknowledgment" in sentence
    assert "garbage" not in sentence
    assert "103" not in sentence


def test_the_timeline_has_durations(told: RunningConsole) -> None:
    """Steps are in order; equal attempts are one step; each has the time since the one before."""
    found = page(told, "editor")
    steps = found["steps"]
    assert [step["at"] for step in steps] == sorted(step["at"] for step in steps)
    opened, signed = (
        next(step for step in steps if step["kind"] == kind)
        for kind in ("report_opened", "report_signed")
    )
    assert signed["since_previous"] == signed["at"] - opened["at"] == 660_000
    assert signed["text"] == "Signed by reader@site1.test"
    (attempt,) = (step for step in steps if step["kind"] == "attempt")
    assert (attempt["count"], attempt["took"]) == (3, 2_000)
    assert "at OBR-4" in attempt["detail"]
    kinds = [span["kind"] for span in found["spans"]]
    assert kinds.index("opened") < kinds.index("signed") < kinds.index("released")
    last = found["spans"][-1]
    assert (last["kind"], last["to"], last["tone"]) == ("not accepted", "ris", "red")


def test_patient_data_and_texts_of_receivers_need_permission(told: RunningConsole) -> None:
    """An operator sees numbers of the order; the receiver's text may name the patient."""
    found = told.call("operator", "GET", "/api/orders/1")
    assert found.json()["order"]["accession"] == "A1"
    for secret in ("M1", "DOE", "JANE"):
        assert secret not in found.text
    assert page(told, "editor")["order"]["mrn"] == "M1"
    assert "JANE" in str(page(told, "editor")["steps"])
    OrderPageBody.model_validate(found.json())


def test_reading_an_order_leaves_an_event_with_its_site(told: RunningConsole) -> None:
    for _ in range(2):  # the page reads again after each hint
        page(told, "editor1")
    events = told.call("chief", "POST", "/api/lists/audit", {"filters": {"action": "read"}})
    (newest,) = [
        row
        for row in events.json()["rows"]
        if (row["subject"], row["email"]) == ("order 1", "editor1@site1.test")
    ]
    assert "A1" not in str(newest)


def test_orders_of_one_report_are_linked(told: RunningConsole) -> None:
    """Each names the other; a foreign site's order does not appear."""
    message = told.store("orders", order(50, accession="A50"))
    other = OrderKey("SITE1", "M1", "A50")
    with told.database.write() as connection:
        stored = Order(other, OrderState.ORDERED, message, message, report_id="R1")
        order_index.save(connection, [stored])
        row = connection.execute(text("SELECT id FROM bridge_order WHERE accession = 'A50'"))
        linked = row.scalar_one()
    assert [item["accession"] for item in page(told, "editor")["linked"]] == ["A50"]
    found = page(told, "editor", linked)
    assert [item["id"] for item in found["linked"]] == [1]
    assert found["report"]["status"] == "Final", "the state of the report is that of its anchor"


def test_the_command_prints_the_page(told: RunningConsole) -> None:
    """The same sentence and steps as in the console."""
    command = ["orders", "show", "A1", "--home", str(told.settings.home)]
    ran = CliRunner().invoke(application, command)
    assert ran.exit_code == 0, ran.output
    assert "The result for ris is parked after 3 attempts" in ran.stdout
    assert "+11 min Signed by reader@site1.test" in ran.stdout
    assert "(3 times) in 2 s" in ran.stdout
    missing = CliRunner().invoke(application, [*command[:2], "ZZZ", *command[3:]])
    assert missing.exit_code == 1
