"""The sentence about an order says its state, what it waits for, and where to look."""

from dataclasses import replace
from typing import Any

import pytest

from bridge.admin.orders.sentence import (
    DeliveryFacts,
    MessageFacts,
    OrderFacts,
    ReportFacts,
    Tone,
    WaitsFor,
    sentence,
)
from bridge.queue.states import QueueState

NOW = 1_800_000_000_000
MINUTE, HOUR = 60_000, 3_600_000


def order(status: str = "", state: str = "ordered", **more: Any) -> OrderFacts:
    report = ReportFacts(status, "ada@site1.test", NOW - 12 * MINUTE) if status else None
    return OrderFacts(state, NOW - 3 * HOUR, report, **more)


def delivery(destination: str, state: QueueState, **more: Any) -> DeliveryFacts:
    facts = DeliveryFacts(7, destination, "final", state, "", "", 0, NOW - 2 * HOUR, 0)
    return replace(facts, **more)


@pytest.mark.parametrize(
    ("facts", "waits_for", "words"),
    [
        (order(), WaitsFor.BRIDGE, "no report yet"),
        (order(state="cancelled"), WaitsFor.NOBODY, "The order is cancelled."),
        (order("Ordered", "held"), WaitsFor.SENDER, "on hold until its sender"),
        (order("Ordered", "reported"), WaitsFor.NOBODY, "is reported elsewhere"),
        (order("Draft", "reported"), WaitsFor.READER, "has the report open for 12 min"),
        (order("Ordered", "awaited"), WaitsFor.SENDER, "report the examination"),
        (order("Ordered"), WaitsFor.READER, "on the worklist and has waited 3 h for"),
        (order("Draft"), WaitsFor.READER, "ada@site1.test has the report open for 12 min"),
        (order("Preliminary"), WaitsFor.REVIEWER, "has waited 12 min for its review"),
        (order("Final", "cancelled"), WaitsFor.NOBODY, "signed by ada@site1.test 12 min ago"),
        (order("Final"), WaitsFor.NOBODY, "No destination receives results"),
    ],
)
def test_the_state_of_the_report(facts: OrderFacts, waits_for: WaitsFor, words: str) -> None:
    found = sentence(facts, NOW)
    assert words in found.text
    assert found.waits_for is waits_for
    assert found.text.endswith(".")


def test_a_report_in_its_sign_delay() -> None:
    """The result follows; that no destination has one yet is no fault."""
    report = ReportFacts("Final", "ada@site1.test", NOW, released_at=NOW + 40_000)
    found = sentence(OrderFacts("ordered", NOW, report), NOW)
    assert found.waits_for is WaitsFor.SIGN_DELAY
    assert found.text.endswith("is released in 40 s, after the sign delay.")


def test_one_receiver_has_the_result_and_another_refuses_it() -> None:
    """The sentence of the issue: it names code, place, attempts and the next attempt."""
    refused = delivery(
        "his-results",
        QueueState.QUEUED,
        id=9,
        code="AE",
        detail="103",
        attempts=5,
        not_before=NOW + 41_000,
        error="AE 103 Table value not found at OBR-4",
    )
    rows = (delivery("ris-results", QueueState.DONE, code="AA"), refused)
    found = sentence(order("Final", deliveries=rows), NOW)
    assert found.text == (
        "The report was signed by ada@site1.test 12 min ago. ris-results has it. his-results has"
        " not accepted the result after 5 attempts in 2 h: AE 103 Table value not found at OBR-4;"
        " next attempt in 41 s."
    )
    assert (found.waits_for, found.tone, found.action) == (
        *(WaitsFor.RECEIVER, Tone.RED, "add codes"),
    )
    assert found.link is not None
    assert (found.link.page, found.link.id) == ("delivery", 9)


@pytest.mark.parametrize(
    ("row", "waits_for", "words"),
    [
        ({"state": QueueState.PARKED, "code": "AR", "detail": "207", "attempts": 20},
         WaitsFor.PERSON, "is parked after 20 attempts: the receiver refuses the result: AR 207"),
        ({"state": QueueState.QUEUED, "code": "not_connected", "detail": "nothing listens"},
         WaitsFor.RECEIVER, "cannot be reached for 2 h: nothing listens"),
        ({"state": QueueState.QUEUED, "waits_for": 5}, WaitsFor.RECEIVER, "behind delivery 5"),
        ({"state": QueueState.CLAIMED}, WaitsFor.RECEIVER, "is being sent to ris"),
        ({"state": QueueState.CANCELLED}, WaitsFor.NOBODY, "was skipped"),
    ],
)  # fmt: skip
def test_what_a_receiver_waits_for(row: dict[str, Any], waits_for: WaitsFor, words: str) -> None:
    found = sentence(order("Final", deliveries=[delivery("ris", **row)]), NOW)
    assert words in found.text
    assert found.waits_for is waits_for


def test_the_oldest_unfinished_delivery_decides() -> None:
    """A later delivery of the destination waits for it."""
    first = delivery("ris", QueueState.PARKED, id=3, code="AE", detail="101")
    second = delivery("ris", QueueState.QUEUED, id=4, waits_for=3)
    found = sentence(order("Addendum", deliveries=[second, first]), NOW)
    assert found.link is not None
    assert found.link.id == 3
    assert "behind" not in found.text


def test_a_message_that_was_not_applied_comes_first() -> None:
    """It needs a person, whatever the report's state is; a waiting one does not."""
    rows = [
        MessageFacts(1, QueueState.DONE, ""),
        MessageFacts(2, QueueState.PARKED, "site_not_found"),
        MessageFacts(3, QueueState.REFUSED, "101", "PID-3.1"),
    ]
    found = sentence(order("Ordered", messages=rows), NOW)
    assert found.text.startswith(
        "Message 3 and 1 more of this order was refused: 101 Required field missing at PID-3.1."
    )
    assert found.waits_for is WaitsFor.PERSON
    waiting = MessageFacts(4, QueueState.QUEUED, "unreachable", not_before=NOW + 8_000)
    found = sentence(order("Ordered", messages=[waiting]), NOW)
    assert "the report engine cannot be reached; next attempt in 8 s" in found.text
    assert found.waits_for is WaitsFor.BRIDGE


def test_a_difference_to_the_report_engine_is_named() -> None:
    found = sentence(order("Final", notes=["not_queued ris"]), NOW)
    assert found.text.endswith("was signed but not queued for a destination: ris.")
    assert found.waits_for is WaitsFor.PERSON
