"""Cancel, order again, hold, release: the result is the same in any order of arrival."""

from collections.abc import Sequence
from itertools import permutations

import pytest

from bridge.contract import OrderKey
from bridge.orders.duplicates import combined
from bridge.orders.order import Order, OrderState
from bridge.orders.plans import plan
from bridge.orders.rules import SourceMessage
from bridge.orders.times import MessageTime, Resolution, clock
from mappings.inbound.events import OrderAction, OrderEvent

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
        each
        for each in permutations(range(len(actions)))
        if final_state(actions, each) != OUTCOMES[actions]
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
