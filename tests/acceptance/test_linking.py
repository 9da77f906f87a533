"""Linking: each signal that joins orders in one report, and its end; never across patients."""

import pytest

from tests.acceptance.house import House
from tests.acceptance.orders import group_of, order
from tests.acceptance.test_order_control import send


def joined(house: House, *numbers: int) -> bool:
    """Tell whether these orders are in one report."""
    return set(house.group(f"A{numbers[0]}")) == {f"A{number}" for number in numbers}


def test_same_study(running: House) -> None:
    """Two orders of one StudyInstanceUID are one report; the first to arrive is the anchor."""
    send(running, order(3001, mrn="M3001", study="1.2.3001"))
    send(running, order(3000, mrn="M3001", study="1.2.3001"))

    assert running.group("A3000") == ["A3001", "A3000"]


def test_same_study_of_other_patients(running: House) -> None:
    """The same StudyInstanceUID does not link orders of different patients."""
    send(running, order(3002, study="1.2.3002"), order(3003, study="1.2.3002"))

    assert joined(running, 3002)
    assert joined(running, 3003)


def test_same_accession_in_several_groups(running: House) -> None:
    """Groups that share an accession are one order of one report."""
    extra = group_of(3005, accession="A3004", study="-", title="CT ABDOMEN")
    send(running, order(3004, extra=extra))

    assert joined(running, 3004)


def test_groups_of_one_message(running: House) -> None:
    """The imaging groups of one message are one report."""
    send(running, order(3006, extra=group_of(3007)))

    assert running.group("A3007") == ["A3006", "A3007"]


def test_groups_with_different_placer_group_numbers(running: House) -> None:
    """Groups with different ORC-4 are not linked."""
    send(running, order(3008, group="G1", extra=group_of(3009, group="G2")))

    assert joined(running, 3008)
    assert joined(running, 3009)


@pytest.mark.parametrize("parent", ["PRINTSET: chest", "printset: chest", "PrintSet:chest"])
def test_printset(running: House, parent: str) -> None:
    """PRINTSET in ORC-8, in any case, with the same ORC-4, joins orders of several messages."""
    number = 3010 + 10 * ["PRINTSET: chest", "printset: chest", "PrintSet:chest"].index(parent)
    one = order(number, mrn=f"M{number}", group=f"G{number}", parent=parent)
    two = order(number + 1, mrn=f"M{number}", group=f"G{number}", parent=parent)
    send(running, one, two)

    assert joined(running, number, number + 1)


def test_placer_group_alone(running: House) -> None:
    """By default, ORC-4 alone does not link orders of different messages."""
    send(running, order(3040, mrn="M3040", group="G3040"))
    send(running, order(3041, mrn="M3040", group="G3040"))

    assert joined(running, 3040)


def test_cancel_unlinks(running: House) -> None:
    """A cancelled order leaves its group; the other stays."""
    send(running, order(3050, mrn="M3050", study="1.2.3050"))
    send(running, order(3051, mrn="M3050", study="1.2.3050"))
    assert joined(running, 3050, 3051)
    send(running, order(3051, mrn="M3050", study="1.2.3050", control="CA", msh10="C3051-CA"))

    assert joined(running, 3050)
    assert running.row("A3051") is None


def test_cancel_of_the_anchor(running: House) -> None:
    """When the anchor is cancelled, the other order remains alone."""
    send(running, order(3060, mrn="M3060", study="1.2.3060"))
    send(running, order(3061, mrn="M3060", study="1.2.3060"))
    send(running, order(3060, mrn="M3060", study="1.2.3060", control="CA", msh10="C3060-CA"))

    assert joined(running, 3061)
    assert running.row("A3060") is None


def test_a_signal_that_goes_away(running: House) -> None:
    """An order whose StudyInstanceUID changes leaves its group."""
    send(running, order(3070, mrn="M3070", study="1.2.3070"))
    send(running, order(3071, mrn="M3070", study="1.2.3070"))
    send(running, order(3071, mrn="M3070", study="1.2.3071", control="XO", msh10="C3071-XO"))

    assert joined(running, 3070)
    assert joined(running, 3071)


def test_a_group_that_is_signed(running: House) -> None:
    """An order that arrives after its group is signed gets its own report."""
    send(running, order(3080, mrn="M3080", study="1.2.3080"))
    running.draft("M3080", "A3080", "Read.")
    running.sign("M3080", "A3080")
    send(running, order(3081, mrn="M3080", study="1.2.3080"))

    assert joined(running, 3081)


def test_three_orders_in_three_messages(running: House) -> None:
    """A third order joins the group of the first two."""
    for number in (3090, 3091, 3092):
        send(running, order(number, mrn="M3090", study="1.2.3090"))

    assert running.group("A3092") == ["A3090", "A3091", "A3092"]
