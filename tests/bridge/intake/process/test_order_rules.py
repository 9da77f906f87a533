"""The order rules decide each action in each state, also for events out of order."""

from itertools import product

import pytest

from bridge.orders.order import OPEN_STATES, OrderState
from bridge.orders.rules import (
    CLOSING_ACTIONS,
    ORDER_ACTIONS,
    OVERTAKEN_TRANSITIONS,
    TRANSITIONS,
    OrderStep,
    decide,
)
from bridge.orders.times import MessageTime, Resolution, clock
from mappings.inbound.events import OrderAction


def time(at: int | None) -> MessageTime | None:
    return None if at is None else MessageTime(at, clock(1, Resolution.MILLISECOND))


@pytest.mark.parametrize(("action", "state"), list(product(sorted(ORDER_ACTIONS), OrderState)))
def test_every_pair_is_decided(action: OrderAction, state: OrderState) -> None:
    step, after = decide(action, state, None, None)
    assert (step, after) == TRANSITIONS[action, state]
    if step is OrderStep.REGISTER:
        assert after is OrderState.ORDERED


@pytest.mark.parametrize("state", OVERTAKEN_TRANSITIONS)
@pytest.mark.parametrize(
    ("sent_at", "state_changed_at", "overtaken"),
    [(1, 2, True), (2, 2, False), (3, 2, False), (None, 2, False), (1, None, False)],
)
def test_a_new_order_that_was_overtaken(
    state: OrderState, sent_at: int | None, state_changed_at: int | None, *, overtaken: bool
) -> None:
    """Only an earlier time of the same sender proves that the cancel or hold is newer."""
    after = decide(OrderAction.CREATE, state, time(sent_at), time(state_changed_at))[1]
    assert (after is state) is overtaken


@pytest.mark.parametrize(
    ("state", "actions"),
    [
        (OrderState.CANCELLED, {OrderAction.CREATE}),
        (OrderState.AWAITED, {OrderAction.CREATE}),
        (OrderState.HELD, {OrderAction.CREATE, OrderAction.RELEASE}),
        (OrderState.REPORTED, {OrderAction.CREATE, OrderAction.RELEASE}),
    ],
)
def test_only_a_new_order_or_a_release_reopens(
    state: OrderState, actions: set[OrderAction]
) -> None:
    """A change after a cancel or a hold has no effect, nor one before the examination."""
    reviving = {
        action for action in ORDER_ACTIONS if TRANSITIONS[action, state][0] is OrderStep.REGISTER
    }
    assert reviving == actions


@pytest.mark.parametrize("action", sorted(CLOSING_ACTIONS))
@pytest.mark.parametrize(
    ("sent_at", "overtaken"), [(1, True), (2, False), (3, False), (None, False)]
)
def test_an_older_cancel_does_not_close_a_newer_order(
    action: OrderAction, sent_at: int | None, *, overtaken: bool
) -> None:
    """A cancel or hold sent before the newest order has no effect."""
    for state in OPEN_STATES:
        step, after = decide(action, state, time(sent_at), None, opened_at=time(2))
        assert ((step, after) == (OrderStep.NOTHING, state)) is overtaken


@pytest.mark.parametrize("sent_at", [1, 3])
def test_a_release_ends_no_later_hold(sent_at: int) -> None:
    """A release or an examination does not end a later hold, nor does a hold undo later ones."""
    held = OrderState.HELD
    assert (decide(OrderAction.RELEASE, held, time(sent_at), time(2))[1] is held) is (sent_at < 2)
    assert (decide(OrderAction.CHANGE, held, time(sent_at), time(2), examined=True)[1] is held) is (
        sent_at < 2
    )
    after = decide(OrderAction.HOLD, OrderState.ORDERED, time(sent_at), time(2))[1]
    assert (after is held) is (sent_at > 2)


def test_neither_release_nor_examination_undoes_a_cancel() -> None:
    """The order is cancelled in any order of arrival."""
    for action in CLOSING_ACTIONS - {OrderAction.HOLD}:
        assert decide(action, OrderState.ORDERED, time(1), time(2))[1] is OrderState.CANCELLED
    assert (
        decide(OrderAction.RELEASE, OrderState.CANCELLED, time(2), time(1))[1]
        is OrderState.CANCELLED
    )


def test_a_held_order_that_was_ordered_again() -> None:
    """A cancel sent before the order does not end a later hold."""
    held = OrderState.HELD
    assert decide(OrderAction.CANCEL, held, time(1), time(3), opened_at=time(2))[1] is held
    assert (
        decide(OrderAction.CANCEL, held, time(2), time(3), opened_at=time(1))[1]
        is OrderState.CANCELLED
    )


@pytest.mark.parametrize("state", OrderState)
def test_an_examination_makes_an_order_ready(state: OrderState) -> None:
    """Images make a held or awaited order ready to read. A cancelled one stays cancelled."""
    step, _ = decide(OrderAction.CHANGE, state, None, None, examined=True)
    assert (step is OrderStep.REGISTER) is (state is not OrderState.CANCELLED)
