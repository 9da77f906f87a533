"""A cancellation, hold or release is about the procedures that it names, or about the one left."""

from collections.abc import AsyncIterator, Sequence
from itertools import permutations
from pathlib import Path

import pytest

from bridge.contract import OrderKey
from bridge.orders.duplicates import combined
from bridge.orders.order import Order, OrderState
from bridge.orders.plans import plan
from bridge.orders.rules import SourceMessage
from bridge.orders.times import MessageTime, Resolution, clock
from bridge.store.database import Database
from mappings.inbound.events import OrderAction, OrderEvent
from tests.bridge.delivery.fixtures import destination
from tests.bridge.delivery.whole_bridge import Hospital, open_hospital
from tests.bridge.intake.messages import order_message

CHEST, ABDOMEN = "71250^CT chest^C4", "74150^CT abdomen^C4"


def orc(control: str, *, parent: str = "", group: str = "") -> str:
    return f"ORC|{control}|PG|FG|{group}||||{parent}\r"


def obr(
    procedure: str = "", accession: str = "", placer: str = "PG", filler: str = "FG", ipc: str = ""
) -> str:
    detail = f"OBR|1|{placer}|{filler}|{procedure}||||||||||||||{accession}||||||CT\r"
    return detail + (f"IPC|{ipc}|R1|1.2.3|S1|CT\r" if ipc else "")


BOTH = orc("NW") + obr(CHEST, "A1") + obr(ABDOMEN, "A2")


@pytest.fixture
async def hospital(tmp_path: Path, database: Database) -> AsyncIterator[Hospital]:
    async with open_hospital(tmp_path, database, destination()) as running:
        yield running


async def send(hospital: Hospital, *groups: str) -> tuple[str, ...]:
    """Send one message for each; return the accessions on the worklist."""
    for minute, text in enumerate(groups, len(hospital.rows("SELECT id FROM message")) + 1):
        await hospital.send(order_message(text, sent=minute))
    return tuple(sorted(await hospital.descriptions()))


@pytest.mark.parametrize(
    "named",
    [
        *(obr(ABDOMEN, "A2"), obr("", "A2"), obr(ABDOMEN), obr(ABDOMEN, ipc="A2"), obr("74150")),
        obr("^CT Abdomen"),
    ],
    ids=["both", "accession", "procedure", "step", "code", "text"],
)
@pytest.mark.parametrize("control", ["CA", "OC", "DC", "OD", "CR", "HD", "OH"])
async def test_one_of_two_orders(hospital: Hospital, control: str, named: str) -> None:
    """The OBR names the order; the numbers are those of both."""
    assert await send(hospital, BOTH, orc(control) + named) == ("A1",)
    assert hospital.last_message() == ("done", "")


@pytest.mark.parametrize("named", [obr(filler="F2", placer=""), obr(placer="P2", filler="")])
async def test_the_numbers_of_the_detail(hospital: Hospital, named: str) -> None:
    """OBR-2 or OBR-3 names the order if ORC has the numbers of a group."""
    both = orc("NW") + obr(CHEST, "A1", "P1", "F1") + obr(ABDOMEN, "A2", "P2", "F2")
    assert await send(hospital, both, orc("CA") + named) == ("A1",)
    assert hospital.last_message() == ("done", "")


async def test_a_detail_of_another_order(hospital: Hospital) -> None:
    """A number or a code that no order has cancels none, with a code."""
    other = orc("CA") + obr("", filler="F9")
    assert await send(hospital, BOTH, other) == ("A1", "A2")
    assert hospital.last_message() == ("done", "other_accession")
    assert await send(hospital, orc("CA") + obr("99999^MR knee^C4")) == ("A1", "A2")
    assert hospital.last_message() == ("done", "several_orders")
    assert await send(hospital, orc("CA") + obr("", "A1")) == ("A2",)
    assert await send(hospital, orc("CA") + obr("99999^MR knee^C4")) == ("A2",)
    assert hospital.last_message() == ("done", "several_orders")


@pytest.mark.parametrize("first", ["CA", "DC"])
@pytest.mark.parametrize("control", ["CA", "OC", "DC", "CR", "HD", "RP"])
async def test_an_orc_alone_is_about_the_order_that_is_left(
    hospital: Hospital, control: str, first: str
) -> None:
    """With two orders open it has no effect, and a code."""
    assert await send(hospital, BOTH, orc(control)) == ("A1", "A2")
    assert hospital.last_message() == ("done", "several_orders")
    assert await send(hospital, orc(first) + obr(ABDOMEN, "A2")) == ("A1",)
    assert await send(hospital, orc(control)) == ()
    assert hospital.last_message() == ("done", "")


async def test_the_procedure_of_a_cancelled_order(hospital: Hospital) -> None:
    """A cancellation that is sent again does not cancel the other order."""
    cancel = orc("CA") + obr(ABDOMEN)
    assert await send(hospital, BOTH, cancel, cancel) == ("A1",)


async def test_hold_and_release_with_an_orc_alone(hospital: Hospital) -> None:
    """The one that is held is released; with none or both held, there is a code."""
    assert await send(hospital, BOTH, orc("RL")) == ("A1", "A2")
    assert hospital.last_message() == ("done", "several_orders")
    assert await send(hospital, orc("HD") + obr(CHEST)) == ("A2",)
    assert await send(hospital, orc("HD")) == ()
    assert await send(hospital, orc("RL")) == ()
    assert hospital.last_message() == ("done", "several_orders")
    assert await send(hospital, orc("RL") + obr(CHEST)) == ("A1",)
    assert await send(hospital, orc("RL")) == ("A1", "A2")


@pytest.mark.parametrize("control", ["CA", "DC", "HD"])
async def test_orders_with_one_parent(hospital: Hospital, control: str) -> None:
    both = orc("NW", parent="PG") + obr(CHEST, "A1") + obr(ABDOMEN, "A2")
    assert await send(hospital, both, orc(control, parent="PG") + obr(ABDOMEN, "A2")) == ("A1",)


async def test_a_printset(hospital: Hospital) -> None:
    """An order of a group that ORC-4 names is cancelled alone."""
    parent = "PRINTSET: 1"
    groups = [
        orc("NW", parent=parent, group="G1") + obr(what, accession)
        for what, accession in ((CHEST, "A1"), (ABDOMEN, "A2"))
    ]
    cancel = orc("CA", parent=parent, group="G1") + obr(CHEST)
    assert await send(hospital, "".join(groups), cancel) == ("A2",)


@pytest.mark.parametrize("control", ["CA", "OC", "DC", "HD"])
@pytest.mark.parametrize(
    ("named", "left"),
    [
        (obr(ABDOMEN, "A1"), "CT chest"),
        (obr(CHEST, "A1"), "CT abdomen"),
        (obr("99999^MR knee^C4", "A1"), "CT chest; CT abdomen"),
        (obr(CHEST, "A1") + obr(ABDOMEN, "A1"), None),
        (obr("", "A1"), None),
    ],
    ids=["second", "first", "another", "both", "no procedure"],
)
async def test_one_of_two_procedures_of_an_accession(
    hospital: Hospital, control: str, named: str, left: str | None
) -> None:
    """The other procedure stays in the order."""
    await send(hospital, orc("NW") + obr(CHEST, "A1") + obr(ABDOMEN, "A1"))
    await send(hospital, orc(control) + named)
    assert (await hospital.descriptions()).get("A1") == left
    code = "several_orders" if "99999" in named else ""
    assert hospital.last_message() == ("done", code)


async def test_a_change_of_one_of_two_orders(hospital: Hospital) -> None:
    """The OBR names it. An ORC alone changes the one that is left, and creates no order."""
    changed = obr("74150^CT abdomen and pelvis^C4")
    await send(hospital, BOTH, orc("XO") + changed)
    descriptions = {"A1": "CT chest", "A2": "CT abdomen and pelvis"}
    assert await hospital.descriptions() == descriptions
    await send(hospital, orc("SC"))
    assert await hospital.descriptions() == descriptions
    assert hospital.last_message() == ("done", "several_orders")
    assert await send(hospital, orc("CA") + obr(CHEST), orc("SC")) == ("A2",)
    assert hospital.last_message() == ("done", "")


KEY = OrderKey("S", "M", "A")
NEW, CANCEL, HOLD, RELEASE = (
    OrderAction.CREATE,
    OrderAction.CANCEL,
    OrderAction.HOLD,
    OrderAction.RELEASE,
)
OFF = None
OUTCOMES: dict[tuple[OrderAction, ...], str | None] = {
    (NEW, CANCEL, NEW, HOLD): OFF,
    (NEW, CANCEL, NEW, HOLD, RELEASE): "2",
    (NEW, HOLD, CANCEL, NEW, HOLD): OFF,
    (NEW, CANCEL, HOLD, NEW): "3",
    (NEW, CANCEL, HOLD, RELEASE): OFF,
    (NEW, CANCEL, NEW, HOLD, CANCEL): OFF,
}


def at(minute: int) -> MessageTime:
    return MessageTime(minute * 60_000, clock(1, Resolution.MINUTE))


def final_state(
    actions: Sequence[OrderAction], arrival: Sequence[int], *, timed: bool = True
) -> str | None:
    """Return the final description on the worklist, or None."""
    order: Order | None = None
    for number, place in enumerate(arrival, 1):
        action = actions[place]
        tags = {"StudyDescription": str(place)} if action is NEW else {}
        event = OrderEvent(
            *(action, "S", "", "M", "A", {**KEY_TAGS, **tags}, {}, "ORC"), placer="P", filler="F"
        )
        known = {} if order is None else {KEY: order}
        (task,) = plan([event], known, SourceMessage(number, at(place) if timed else None))
        order = task.after
    assert order is not None
    return order.tags["StudyDescription"] if order.state == OrderState.ORDERED else None


KEY_TAGS = {"SiteID": "S", "PatientMRN": "M", "Accession": "A"}


@pytest.mark.parametrize("actions", OUTCOMES, ids="-".join)
def test_every_arrival(actions: tuple[OrderAction, ...]) -> None:
    """The times decide. A hold after a cancellation applies to an order that arrives late."""
    wrong = [
        permutation
        for permutation in permutations(range(len(actions)))
        if final_state(actions, permutation) != OUTCOMES[actions]
    ]
    assert not wrong


def test_without_times() -> None:
    """Without times, a hold of a cancelled order has no effect."""
    assert final_state((NEW, CANCEL, HOLD, NEW), range(4), timed=False) == "3"


def test_merged_rows() -> None:
    """A later hold under one of two merged rows counts."""
    cancelled = Order(KEY, OrderState.CANCELLED, 1, 1, state_changed_at=at(1))
    held = Order(OrderKey("S", "M", "F"), OrderState.HELD, 2, 2, state_changed_at=at(5))
    one = combined(cancelled, held)
    assert one.state == OrderState.CANCELLED
    event = OrderEvent(NEW, "S", "", "M", "A", KEY_TAGS, {}, "ORC")
    (late,) = plan([event], {KEY: one}, SourceMessage(3, at(2)))
    assert (late.after.state, late.after.state_changed_at) == (OrderState.HELD, at(5))
    (newer,) = plan([event], {KEY: one}, SourceMessage(3, at(6)))
    assert newer.after.state == OrderState.ORDERED
    assert newer.after.later_event is None
