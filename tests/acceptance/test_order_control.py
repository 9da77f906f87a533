"""Orders, changes and cancellations in every order that hospitals send, seen on the worklist."""

import pytest

from tests.acceptance.house import House
from tests.acceptance.orders import adt, order
from tests.acceptance.wire import Sender, verdict


def send(house: House, *messages: bytes) -> None:
    """Send messages that are all accepted, and wait until all are applied."""
    with Sender(house.mllp_port) as sender:
        for message in messages:
            assert verdict(sender.ask(message))[0] == "AA", message
    house.settle()


def story(number: int, *controls: str) -> list[bytes]:
    """Messages about one order, each with its own title and control id."""
    return [
        order(number, control=control, title=f"{control} {place}", msh10=f"S{number}-{place}")
        for place, control in enumerate(controls)
    ]


def title(house: House, number: int) -> str | None:
    """The StudyDescription on the worklist; None if the order is not listed."""
    row = house.row(f"A{number}")
    return row["orders"][0]["StudyDescription"] if row else None


STORIES: dict[str, str | None] = {
    "NW": "NW 0",
    "NW NW": "NW 1",
    "XO": "XO 0",
    "XO XO": "XO 1",
    "NW XO XO": "XO 2",
    "NW CA": None,
    "CA NW": "NW 1",
    "NW CA XO": None,
    "NW DC": None,
    "NW CA NW": "NW 2",
    "NW HD": None,
    "NW HD RL": "RL 2",
    "NW HD XO RL": "RL 3",
    "CA": None,
    "NW OK": "NW 0",
    "NW CA RL": None,
    "SN": "SN 0",
    "NW SC": "SC 1",
}


@pytest.mark.parametrize("number", range(len(STORIES)), ids=list(STORIES))
def test_stories(running: House, number: int) -> None:
    """The worklist shows the state that the last effective message gives."""
    controls, expected = list(STORIES.items())[number]
    send(running, *story(2000 + number, *controls.split()))

    assert title(running, 2000 + number) == expected


def test_unknown_order_control(running: House) -> None:
    """The bridge refuses an unknown order control and names its place."""
    with Sender(running.mllp_port) as sender:
        reply = sender.ask(order(2101, control="QQ"))

    assert verdict(reply) == ("AE", "C2101")
    assert reply is not None
    assert b"ORC^1^1" in reply


def test_a_cancel_sent_later_but_arriving_first(running: House) -> None:
    """A new order with an earlier MSH-7 than its cancellation does not restore the order."""
    cancel = order(2102, control="CA", sent="20260102030500", msh10="LATER")
    send(running, cancel, order(2102, sent="20260102030400", msh10="EARLIER"))

    assert running.row("A2102") is None


def test_a_draft_with_text_outlives_its_cancellation(running: House) -> None:
    """The cancellation of an order keeps dictated text."""
    send(running, order(2103))
    running.draft("M2103", "A2103", "Dictated already.")
    send(running, order(2103, control="CA", msh10="C2103-CA"))

    assert running.act("export/json", "M2103", "A2103")["reportInfo"]["content"] == (
        "Dictated already."
    )


def test_a_change_after_the_signature(running: House) -> None:
    """A signed report keeps its data; the bridge accepts a later change without effect."""
    send(running, order(2104, title="AS READ"))
    running.draft("M2104", "A2104", "Signed text.")
    running.sign("M2104", "A2104")
    send(running, order(2104, control="XO", title="TOO LATE", msh10="C2104-XO"))
    row = running.row("A2104")

    assert row is not None
    assert row["status"] == "Final"
    assert row["orders"][0]["StudyDescription"] == "AS READ"


def test_demographic_update(running: House) -> None:
    """A08 changes the name in every report of the patient."""
    send(running, order(2105, mrn="M2105", name="WRONG^NAME"), order(2106, mrn="M2105"))
    send(running, adt("A08", 2107, "M2105", "RIGHT^NAME"))

    names = {
        row["orders"][0]["PatientName"]
        for row in running.worklist()
        if row["clinicalInfo"][0]["PatientMRN"] == "M2105"
    }
    assert {str(name).upper() for name in names} == {"RIGHT^NAME"}


def test_merge(running: House) -> None:
    """A40 moves the reports of the prior number; later orders for that number follow."""
    send(running, order(2108, mrn="OLD2108"), adt("A40", 2109, "NEW2108", "DOE^JANE", "OLD2108"))
    row = running.row("A2108")
    assert row is not None
    assert row["clinicalInfo"][0]["PatientMRN"] == "NEW2108"

    send(running, order(2108, mrn="OLD2108", control="XO", title="AFTER", msh10="C2108-XO"))
    rows = [row for row in running.worklist() if "A2108" in str(row)]
    assert len(rows) == 1
    assert rows[0]["orders"][0]["StudyDescription"] == "AFTER"


def test_merge_with_itself(running: House) -> None:
    """The bridge refuses a merge of a number with itself."""
    with Sender(running.mllp_port) as sender:
        code, _ = verdict(sender.ask(adt("A40", 2110, "M2110", "DOE^JANE", "M2110")))
    assert code in {"AE", "AR"}
