"""Orders in every order of arrival, parent and child orders, and order replies."""

from itertools import permutations

import pytest

from tests.acceptance.hospital import Hospital
from tests.acceptance.house import House
from tests.acceptance.orders import adt, group_of, order
from tests.acceptance.test_order_control import send, title
from tests.acceptance.wire import Sender, segment, verdict

NEW, CHANGE, CANCEL = "NW", "XO", "CA"
SEQUENCES: dict[tuple[str, ...], str | None] = {
    (NEW, CHANGE): "XO 1",
    (NEW, CHANGE, CHANGE): "XO 2",
    (NEW, CANCEL): None,
    (NEW, CHANGE, CANCEL): None,
    (NEW, CANCEL, NEW): "NW 2",
    (NEW, NEW): "NW 1",
}
ARRIVALS = [
    (sequence, arrival) for sequence in SEQUENCES for arrival in permutations(range(len(sequence)))
]


def message_at(number: int, sequence: tuple[str, ...], place: int) -> bytes:
    """One message of a sequence; each has a different minute in MSH-7."""
    return order(
        number,
        control=sequence[place],
        title=f"{sequence[place]} {place}",
        msh10=f"T{number}-{place}",
        sent=f"2026010203{10 + place}00",
    )


def test_every_arrival(running: House) -> None:
    """Messages that differ in MSH-7 lead to the same worklist in every order of arrival."""
    messages, expected = [], {}
    for number, (sequence, arrival) in enumerate(ARRIVALS, 7000):
        messages += [message_at(number, sequence, place) for place in arrival]
        expected[number] = (arrival, SEQUENCES[sequence])
    send(running, *messages)

    found = {
        each["Accession"]: row["orders"][0].get("StudyDescription")
        for row in running.worklist()
        for each in row["clinicalInfo"]
    }
    wrong = {n: (a, w) for n, (a, w) in expected.items() if found.get(f"A{n}") != w}
    assert not wrong


def test_a_cancelled_parent(running: House) -> None:
    """The cancellation of a parent cancels its children; other orders stay."""
    child = order(7101, control="CH", parent="P7100^F7100", mrn="M7100", extra="")
    other = order(7102, mrn="M7100")
    parent = order(7100, control="CA", mrn="M7100", msh10="C7100-CA")
    send(running, child, other, parent)

    assert title(running, 7101) is None
    assert title(running, 7102) is not None


def test_replaced(running: House) -> None:
    """RU removes its order from the worklist, and RO in the same message adds one."""
    send(running, order(7110, mrn="M7110"))
    new = group_of(7111, control="RO", title="MR HEAD")
    send(running, order(7110, mrn="M7110", control="RU", msh10="C7110-RU", extra=new))

    assert title(running, 7110) is None
    assert title(running, 7111) == "MR HEAD"


def test_a_cancellation_of_a_dictated_report_is_listed(running: House) -> None:
    """`bridge messages list` marks a cancellation that kept a report with text."""
    send(running, order(7120))
    running.draft("M7120", "A7120", "Dictated already.")
    send(running, order(7120, control="CA", msh10="C7120-CA"))

    assert "report_kept" in running.bridge("messages", "list", "--limit", "5")


def test_merges_of_merges(running: House) -> None:
    """After two merges, late orders of the first number belong to the last survivor."""
    send(running, order(7130, mrn="A7130"))
    send(running, adt("A40", 7131, "B7130", "DOE^JANE", "A7130"))
    send(running, adt("A40", 7132, "C7130", "DOE^JANE", "B7130"))
    send(running, order(7133, mrn="A7130"))

    for number in (7130, 7133):
        row = running.row(f"A{number}")
        assert row is not None
        assert row["clinicalInfo"][0]["PatientMRN"] == "C7130"


@pytest.mark.parametrize(("control", "reply_control"), [("NW", "OK"), ("XO", "XR"), ("CA", "CR")])
def test_order_replies(hospital: Hospital, control: str, reply_control: str) -> None:
    """A listener with `replies = "order"` replies with ORR; a retransmit gets the same bytes."""
    message = order(7140, control=control, msh10=f"R7140-{control}")
    with Sender(hospital.replying) as sender:
        first, second = sender.ask(message), sender.ask(message)
    assert first is not None
    assert first == second
    assert verdict(first) == ("AA", f"R7140-{control}")
    assert "|ORR^O02^ORR_O02|" in segment(first, b"MSH")
    assert segment(first, b"ORC") == f"ORC|{reply_control}|P7140|F7140"


def test_refused_as_an_order(hospital: Hospital) -> None:
    """The reply to a refused order has ORC-1 UA."""
    with Sender(hospital.replying) as sender:
        reply = sender.ask(order(7150, accession="", control="QQ"))
    assert reply is not None
    assert verdict(reply)[0] == "AE"
    assert segment(reply, b"ORC").startswith("ORC|UA|")
