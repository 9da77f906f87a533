"""Orders in whatever order they arrive, families and replies, over real sockets."""

from itertools import permutations

import pytest

from tests.acceptance.hospital import Hospital
from tests.acceptance.house import House
from tests.acceptance.orders import adt, group_of, order
from tests.acceptance.test_order_control import send, title
from tests.acceptance.wire import Sender, segment, verdict

NEW, CHANGE, CANCEL = "NW", "XO", "CA"
TALES: dict[tuple[str, ...], str | None] = {
    (NEW, CHANGE): "XO 1",
    (NEW, CHANGE, CHANGE): "XO 2",
    (NEW, CANCEL): None,
    (NEW, CHANGE, CANCEL): None,
    (NEW, CANCEL, NEW): "NW 2",
    (NEW, NEW): "NW 1",
}
ARRIVALS = [(tale, arrival) for tale in TALES for arrival in permutations(range(len(tale)))]


def spoken(number: int, tale: tuple[str, ...], place: int) -> bytes:
    """One message of a tale, sent in its own minute."""
    return order(
        number,
        control=tale[place],
        title=f"{tale[place]} {place}",
        msh10=f"T{number}-{place}",
        sent=f"2026010203{10 + place}00",
    )


def test_every_arrival(running: House) -> None:
    """Messages whose MSH-7 tells their order end the same in every order of arrival."""
    messages, expected = [], {}
    for number, (tale, arrival) in enumerate(ARRIVALS, 7000):
        messages += [spoken(number, tale, place) for place in arrival]
        expected[number] = (arrival, TALES[tale])
    send(running, *messages)

    found = {
        each["Accession"]: row["orders"][0].get("StudyDescription")
        for row in running.worklist()
        for each in row["clinicalInfo"]
    }
    wrong = {n: (a, w) for n, (a, w) in expected.items() if found.get(f"A{n}") != w}
    assert not wrong


def test_a_family(running: House) -> None:
    """The parent's cancellation is its children's; a stranger stays."""
    child = order(7101, control="CH", parent="P7100^F7100", mrn="M7100", extra="")
    other = order(7102, mrn="M7100")
    parent = order(7100, control="CA", mrn="M7100", msh10="C7100-CA")
    send(running, child, other, parent)

    assert title(running, 7101) is None
    assert title(running, 7102) is not None


def test_replaced(running: House) -> None:
    """RU and RO in one message: the one off the worklist, the other on it."""
    send(running, order(7110, mrn="M7110"))
    new = group_of(7111, control="RO", title="MR HEAD")
    send(running, order(7110, mrn="M7110", control="RU", msh10="C7110-RU", extra=new))

    assert title(running, 7110) is None
    assert title(running, 7111) == "MR HEAD"


def test_what_was_dictated_is_told(running: House) -> None:
    """`bridge messages list` shows which cancellation met a report with text."""
    send(running, order(7120))
    running.draft("M7120", "A7120", "Dictated already.")
    send(running, order(7120, control="CA", msh10="C7120-CA"))

    assert "report_kept" in running.bridge("messages", "list", "--limit", "5")


def test_merges_of_merges(running: House) -> None:
    """Late orders of the first number are the last survivor's."""
    send(running, order(7130, mrn="A7130"))
    send(running, adt("A40", 7131, "B7130", "DOE^JANE", "A7130"))
    send(running, adt("A40", 7132, "C7130", "DOE^JANE", "B7130"))
    send(running, order(7133, mrn="A7130"))

    for number in (7130, 7133):
        row = running.row(f"A{number}")
        assert row is not None
        assert row["clinicalInfo"][0]["PatientMRN"] == "C7130"


@pytest.mark.parametrize(("control", "word"), [("NW", "OK"), ("XO", "XR"), ("CA", "CR")])
def test_order_replies(hospital: Hospital, control: str, word: str) -> None:
    """A listener with `replies = "order"` answers with ORR, and again with the same bytes."""
    message = order(7140, control=control, msh10=f"R7140-{control}")
    with Sender(hospital.replying) as sender:
        first, second = sender.ask(message), sender.ask(message)
    assert first is not None
    assert first == second
    assert verdict(first) == ("AA", f"R7140-{control}")
    assert "|ORR^O02^ORR_O02|" in segment(first, b"MSH")
    assert segment(first, b"ORC") == f"ORC|{word}|P7140|F7140"


def test_refused_as_an_order(hospital: Hospital) -> None:
    """What is refused is refused in the orders too."""
    with Sender(hospital.replying) as sender:
        reply = sender.ask(order(7150, accession="", control="QQ"))
    assert reply is not None
    assert verdict(reply)[0] == "AE"
    assert segment(reply, b"ORC").startswith("ORC|UA|")
