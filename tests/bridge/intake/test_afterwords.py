"""An order that is cancelled, ordered again, held, released: it ends the same in any arrival."""

from collections.abc import Sequence
from itertools import permutations

import pytest

from bridge.intake.patients.duplicate_orders import as_one
from bridge.intake.process.order_rules import OrderState
from bridge.intake.process.planning import Occasion, plan
from bridge.store.records.message_time import MessageTime, Resolution, clock
from bridge.store.records.order_index import IndexedOrder, OrderIndexKey
from mappings.inbound.events import OrderAction, OrderEvent

KEY = OrderIndexKey("S", "M", "A")
NEW, CANCEL, HOLD, RELEASE = (
    OrderAction.CREATE,
    OrderAction.CANCEL,
    OrderAction.HOLD,
    OrderAction.RELEASE,
)
OFF = None
TALES: dict[tuple[OrderAction, ...], str | None] = {
    (NEW, CANCEL, NEW, HOLD): OFF,
    (NEW, CANCEL, NEW, HOLD, RELEASE): "2",
    (NEW, HOLD, CANCEL, NEW, HOLD): OFF,
    (NEW, CANCEL, HOLD, NEW): "3",
    (NEW, CANCEL, HOLD, RELEASE): OFF,
    (NEW, CANCEL, NEW, HOLD, CANCEL): OFF,
}


def at(minute: int) -> MessageTime:
    """A time by the one clock of these tales."""
    return MessageTime(minute * 60_000, clock(1, Resolution.MINUTE))


def ending(
    tale: Sequence[OrderAction], arrival: Sequence[int], *, timed: bool = True
) -> str | None:
    """What is on the worklist when all has come: the description; None where nothing is."""
    order: IndexedOrder | None = None
    for number, place in enumerate(arrival, 1):
        action = tale[place]
        tags = {"StudyDescription": str(place)} if action is NEW else {}
        event = OrderEvent(
            *(action, "S", "", "M", "A", {**KEY_TAGS, **tags}, {}, "ORC"), placer="P", filler="F"
        )
        known = {} if order is None else {KEY: order}
        (task,) = plan([event], known, Occasion(number, at(place) if timed else None))
        order = task.after
    assert order is not None
    return order.tags["StudyDescription"] if order.state == OrderState.ORDERED else None


KEY_TAGS = {"SiteID": "S", "PatientMRN": "M", "Accession": "A"}


@pytest.mark.parametrize("tale", TALES, ids="-".join)
def test_every_arrival(tale: tuple[OrderAction, ...]) -> None:
    """By the times of the senders; a hold behind a cancellation is of an order that is late."""
    wrong = [each for each in permutations(range(len(tale))) if ending(tale, each) != TALES[tale]]
    assert not wrong


def test_without_times() -> None:
    """Where nobody says when, a hold of a cancelled order is nothing, as ever."""
    assert ending((NEW, CANCEL, HOLD, NEW), range(4), timed=False) == "3"


def test_of_rows_that_were_two() -> None:
    """Cancelled under its accession, held later under a number: the hold is heard as well."""
    gone = IndexedOrder(KEY, OrderState.CANCELLED, 1, 1, turned_at=at(1))
    held = IndexedOrder(OrderIndexKey("S", "M", "F"), OrderState.HELD, 2, 2, turned_at=at(5))
    one = as_one(gone, held)
    assert one.state == OrderState.CANCELLED
    event = OrderEvent(NEW, "S", "", "M", "A", KEY_TAGS, {}, "ORC")
    (late,) = plan([event], {KEY: one}, Occasion(3, at(2)))
    assert (late.after.state, late.after.turned_at) == (OrderState.HELD, at(5))
    (newer,) = plan([event], {KEY: one}, Occasion(3, at(6)))
    assert newer.after.state == OrderState.ORDERED
    assert not newer.after.signals
