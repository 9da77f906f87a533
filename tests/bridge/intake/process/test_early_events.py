"""Cancellations, holds and replacements by number that arrive before their order."""

from collections.abc import AsyncIterator
from itertools import permutations
from pathlib import Path

import pytest

from bridge.store.database import Database
from tests.bridge.delivery.whole_bridge import Hospital, open_hospital
from tests.bridge.intake.messages import adt, order_group, order_message
from tests.bridge.intake.patients import test_visits as visits
from tests.bridge.intake.patients.test_visit_transfers import EARLY, LATE, MOVED, at
from tests.databases import fresh_file

ORDER = order_group("NW", "P1", "F1", accession="A1")


@pytest.fixture
async def hospital(tmp_path: Path) -> AsyncIterator[Hospital]:
    """A bridge with a real engine and no destination."""
    database = Database(fresh_file(tmp_path / "bridge.db"))
    async with open_hospital(tmp_path, database) as made:
        yield made
    database.dispose()


@pytest.mark.parametrize("control", ["CA", "HD", "RP"])
@pytest.mark.parametrize(("placer", "filler"), [("P1", ""), ("", "F1")])
async def test_an_order_after_its_cancellation(
    hospital: Hospital, control: str, placer: str, filler: str
) -> None:
    """An order sent before its cancellation and received after it stays off the worklist."""
    await hospital.send(order_message(order_group(control, placer, filler, what=""), sent=3))
    await hospital.send(order_message(ORDER, sent=1))
    await hospital.send(order_message(ORDER, sent=2))
    assert await hospital.descriptions() == {}
    await hospital.send(
        order_message(order_group("NW", "P1", "F1", accession="A1", what="Anew"), sent=4)
    )
    assert await hospital.descriptions() == {"A1": "Anew"}


async def test_later_events_apply_to_the_order(hospital: Hospital) -> None:
    """A later release or cancellation by number applies to the order that arrived."""
    await hospital.send(order_message(order_group("HD", "P1", "F1", what=""), sent=3))
    await hospital.send(order_message(ORDER, sent=1))
    await hospital.send(order_message(order_group("RL", "P1", "F1", what=""), sent=4))
    assert await hospital.descriptions() == {"A1": "CT Head"}
    await hospital.send(order_message(order_group("CA", "P1", "F1", what=""), sent=5))
    assert await hospital.descriptions() == {}


async def test_a_number_of_two_orders_closes_one_at_most(hospital: Hospital) -> None:
    """If two orders have the number, the second one stays open, with an exception."""
    await hospital.send(order_message(order_group("CA", "P1", what=""), sent=3))
    await hospital.send(order_message(ORDER, sent=1))
    await hospital.send(order_message(order_group("NW", "P1", "F2", accession="A2"), sent=1))
    assert await hospital.descriptions() == {"A2": "CT Head"}
    assert hospital.last_message() == ("done", "several_orders")


async def test_another_patients_number_closes_nothing(hospital: Hospital) -> None:
    """Only orders of one patient are searched."""
    await hospital.send(
        order_message(order_group("CA", "P1", "F1", what=""), mrn="M2", name="O^O", sent=3)
    )
    await hospital.send(order_message(ORDER, sent=1))
    assert await hospital.descriptions() == {"A1": "CT Head"}


async def test_a_hold_after_its_release_holds_no_children(hospital: Hospital) -> None:
    """A later release applies to the children too."""
    await hospital.send(order_message(order_group("NW", "P0", "F0"), sent=1))
    child = order_group("CH", "P1", "F1", parent="P0^F0")
    await hospital.send(order_message(order_group("PA", "P0", "F0"), child, sent=2))
    await hospital.send(order_message(order_group("RL", "P0", "F0", what=""), sent=6))
    await hospital.send(order_message(order_group("HD", "P0", "F0", what=""), sent=5))
    assert set(await hospital.descriptions()) == {"F0", "F1"}


async def test_a_change_by_the_placers_number(hospital: Hospital) -> None:
    """The event gets the accession of the known order."""
    await hospital.send(order_message(order_group("NW", "P1", "F1"), sent=1))
    await hospital.send(order_message(order_group("XO", "P1", what="CT Neck"), sent=2))
    assert await hospital.descriptions() == {"F1": "CT Neck"}
    assert hospital.last_message() == ("done", "")


ASSIGNED = (("NW", "P", ""), ("NA", "P", "F"))
ENDS = (("CA", "", "F"), ("CA", "P", ""), ("DC", "P", "F"))


async def test_cancelled_by_a_number_that_is_assigned_later(hospital: Hospital) -> None:
    """The cancellation has either number, in any order of arrival, with or without an accession."""
    cases = [
        (arrival, (*ASSIGNED, end), own)
        for end in ENDS
        for own in (False, True)
        for arrival in permutations(range(3))
    ]
    for number, (arrival, events, own) in enumerate(cases):
        for place in arrival:
            control, *given = events[place]
            placer, filler = (item and f"{item}{number}" for item in given)
            accession = f"A{number}" if own and control == "NW" else ""
            group = order_group(
                control, placer, filler, accession=accession, what="CT" if control == "NW" else ""
            )
            await hospital.hand_over(order_message(group, mrn=f"M{number}", sent=place))
    await hospital.applied()
    assert await hospital.descriptions() == {}
    assert len(hospital.rows("SELECT id FROM bridge_order")) == len(cases)


async def test_a_number_assigned_before_the_order(hospital: Hospital) -> None:
    """The order is one examination with its own accession, and found by both numbers."""
    await hospital.send(order_message(order_group("NA", "P1", "F1", what=""), sent=2))
    await hospital.send(order_message(order_group("NW", "P1", accession="A1"), sent=1))
    assert await hospital.descriptions() == {"A1": "CT Head"}
    await hospital.send(order_message(order_group("CA", "", "F1", what=""), sent=3))
    assert await hospital.descriptions() == {}


async def test_a_started_report_stays(hospital: Hospital) -> None:
    """A started report stays with its text, with an exception."""
    await hospital.send(order_message(order_group("XO", "P1", "F1"), sent=2))
    page = await hospital.page("F1")
    await page("save", text="Begun.")
    await hospital.send(order_message(ORDER, sent=1))
    assert hospital.last_message() == ("done", "report_kept")
    assert await hospital.report("F1") is not None
    assert await hospital.descriptions() == {"A1": "CT Head"}
    await hospital.send(
        order_message(order_group("XO", "P1", "F1", accession="A1", what="CT Neck"), sent=3)
    )
    assert hospital.last_message() == ("done", "")


async def test_a_change_of_a_repeated_order(hospital: Hospital) -> None:
    """An event sent after the second order and received before it applies to that order."""
    for sent, control, what in ((1, "NW", "Old"), (2, "CA", "Old"), (4, "XO", "Newest")):
        await hospital.send(order_message(order_group(control, "P1", "F1", what=what), sent=sent))
    assert await hospital.descriptions() == {}
    await hospital.send(order_message(order_group("NW", "P1", "F1", what="New"), sent=3))
    assert await hospital.descriptions() == {"F1": "Newest"}


async def test_two_patients_one_order(hospital: Hospital) -> None:
    """A merge combines both orders. The later event counts, also one by number."""
    await hospital.send(order_message(ORDER, sent=1))
    await hospital.send(order_message(order_group("NW", "P2", "F2", accession="A2"), sent=1))
    change = order_group("XO", "P1", "F1", accession="A1", what="CT Neck")
    await hospital.send(order_message(change, mrn="M2", sent=3))
    await hospital.send(order_message(change.replace("Neck", "Chest"), sent=2))
    await hospital.send(order_message(order_group("CA", "P2", what=""), mrn="M2", sent=4))
    await hospital.send(
        order_message(
            order_group("NW", "P3", accession="A3"), order_group("HD", "P3", accession="A3")
        )
    )
    await hospital.send(order_message(order_group("RL", "P3", what=""), mrn="M2", sent=5))
    await hospital.send(adt("A40", "M1", "M2"))
    assert await hospital.descriptions() == {"A1": "CT Neck", "A3": "CT Head"}
    assert sorted(hospital.rows("SELECT accession, mrn, state FROM bridge_order")) == [
        ("A1", "M1", "ordered"),
        ("A2", "M1", "cancelled"),
        ("A3", "M1", "ordered"),
    ]


async def test_a_hold_without_a_visit_that_moved(hospital: Hospital) -> None:
    """A hold without a visit applies to the moved order."""
    for hold in ("ORC|HD|PA1|A1\r", "ORC|XO|PA2|A2\rOBR|1|PA2|A2|X^CT Neck^L\r"):
        await hospital.send(order_message(hold, sent=150))
    await hospital.send(at(MOVED, visits.adt("A45", "M2", "M1||||V1", visit="V9")))
    for accession in ("A1", "A2"):
        await hospital.send(at(EARLY, visits.order(accession)))
    assert {acc: patient[:2] for acc, patient in (await visits.known(hospital)).items()} == {
        "A2": ("M2", "V9")
    }
    assert await hospital.descriptions() == {"A2": "CT Neck"}
    await hospital.send(order_message("ORC|RL|PA1\r", sent=160))
    assert set(await hospital.descriptions()) == {"A1", "A2"}


async def test_a_merge_that_comes_after_a_later_move(hospital: Hospital) -> None:
    """The visit of the merged order belongs to another patient by then."""
    move = visits.adt("A45", "M2", "M3||||V1", visit="V9")
    await hospital.send(at(LATE, move))
    await hospital.send(at(EARLY, visits.order("A1")))
    await hospital.send(at(MOVED, visits.adt("A40", "M3", "M1")))
    assert {acc: patient[:2] for acc, patient in (await visits.known(hospital)).items()} == {
        "A1": ("M2", "V9")
    }


async def test_a_cancellation_moves_with_its_visit(hospital: Hospital) -> None:
    """The cancellation arrived before the order, and the visit has moved back since."""
    await hospital.send(at(LATE, visits.order("A2", "M2", "V9", "MOVER^MIRA")))
    cancel = at(LATE, visits.order("A2", "M2", "V9", "MOVER^MIRA")).replace(b"ORC|NW", b"ORC|CA")
    await hospital.send(cancel)
    await hospital.send(at("20261121130000", visits.adt("A45", "M1", "M2||||V9", visit="V1")))
    await hospital.send(at(EARLY, visits.order("A2")))
    assert await hospital.descriptions() == {}
