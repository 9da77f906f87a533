"""What an order event does to an order: every pair, and who overtook whom."""

from itertools import product

import pytest

from bridge.intake.process.order_rules import (
    CLOSING,
    OPEN,
    ORDERS,
    OVERTAKEN,
    RULES,
    OrderState,
    Step,
    decide,
)
from bridge.store.records.message_time import MessageTime, Resolution, clock
from mappings.inbound.events import OrderAction


def time(at: int | None) -> MessageTime | None:
    """A time by the one clock of these tests."""
    return None if at is None else MessageTime(at, clock(1, Resolution.MILLISECOND))


@pytest.mark.parametrize(("action", "state"), list(product(sorted(ORDERS), OrderState)))
def test_every_pair_is_decided(action: OrderAction, state: OrderState) -> None:
    """Whatever arrives in whatever state leads somewhere."""
    step, after = decide(action, state, None, None)
    assert (step, after) == RULES[action, state]
    if step is Step.REGISTER:
        assert after is OrderState.ORDERED


@pytest.mark.parametrize("state", OVERTAKEN)
@pytest.mark.parametrize(
    ("sent_at", "turned_at", "overtaken"),
    [(1, 2, True), (2, 2, False), (3, 2, False), (None, 2, False), (1, None, False)],
)
def test_a_new_order_that_was_overtaken(
    state: OrderState, sent_at: int | None, turned_at: int | None, *, overtaken: bool
) -> None:
    """Only an earlier time of the sender's own proves that the cancel or hold is newer."""
    after = decide(OrderAction.CREATE, state, time(sent_at), time(turned_at))[1]
    assert (after is state) is overtaken


def test_nothing_but_a_new_order_revives_a_cancelled_one() -> None:
    """A change that straggles behind a cancel changes nothing."""
    reviving = {
        action for action in ORDERS if RULES[action, OrderState.CANCELLED][0] is Step.REGISTER
    }
    assert reviving == {OrderAction.CREATE}


@pytest.mark.parametrize("action", sorted(CLOSING))
@pytest.mark.parametrize(
    ("sent_at", "overtaken"), [(1, True), (2, False), (3, False), (None, False)]
)
def test_what_was_ordered_again_is_not_closed_by_an_older_word(
    action: OrderAction, sent_at: int | None, *, overtaken: bool
) -> None:
    """A cancel or hold that was sent before the newest order does nothing."""
    for state in OPEN:
        step, after = decide(action, state, time(sent_at), None, opened_at=time(2))
        assert ((step, after) == (Step.NOTHING, state)) is overtaken


@pytest.mark.parametrize("sent_at", [1, 3])
def test_a_release_ends_no_later_hold(sent_at: int) -> None:
    """Nor does an examination; and a hold ends neither of them that was sent after it."""
    held = OrderState.HELD
    assert (decide(OrderAction.RELEASE, held, time(sent_at), time(2))[1] is held) is (sent_at < 2)
    assert (decide(OrderAction.CHANGE, held, time(sent_at), time(2), examined=True)[1] is held) is (
        sent_at < 2
    )
    after = decide(OrderAction.HOLD, OrderState.ORDERED, time(sent_at), time(2))[1]
    assert (after is held) is (sent_at > 2)


def test_neither_release_nor_examination_undoes_a_cancel() -> None:
    """The order is cancelled, whichever of them comes first."""
    for action in CLOSING - {OrderAction.HOLD}:
        assert decide(action, OrderState.ORDERED, time(1), time(2))[1] is OrderState.CANCELLED
    assert (
        decide(OrderAction.RELEASE, OrderState.CANCELLED, time(2), time(1))[1]
        is OrderState.CANCELLED
    )


def test_a_held_order_that_was_ordered_again() -> None:
    """A cancel of before that order does not end what is held since."""
    held = OrderState.HELD
    assert decide(OrderAction.CANCEL, held, time(1), time(3), opened_at=time(2))[1] is held
    assert (
        decide(OrderAction.CANCEL, held, time(2), time(3), opened_at=time(1))[1]
        is OrderState.CANCELLED
    )


@pytest.mark.parametrize("state", OrderState)
def test_examined_puts_on_the_worklist_what_waited(state: OrderState) -> None:
    """Images make an order that was held or awaited ready to read; a cancelled one stays so."""
    step, _ = decide(OrderAction.CHANGE, state, None, None, examined=True)
    assert (step is Step.REGISTER) is (state is not OrderState.CANCELLED)
