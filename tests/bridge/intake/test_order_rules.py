"""What an order event does to an order: every pair, and who overtook whom."""

from itertools import product

import pytest

from bridge.intake.order_rules import CLOSING, OPEN, OVERTAKEN, RULES, OrderState, Step, decide
from bridge.intake.planning import ORDERS
from mappings.events import Action


@pytest.mark.parametrize(("action", "state"), list(product(sorted(ORDERS), OrderState)))
def test_every_pair_is_decided(action: Action, state: OrderState) -> None:
    """Whatever arrives in whatever state leads somewhere."""
    step, after = decide(action, state, None, None)
    assert (step, after) == RULES[action, state]
    if step is Step.REGISTER:
        assert after is OrderState.ORDERED


@pytest.mark.parametrize("state", OVERTAKEN)
@pytest.mark.parametrize(
    ("sent_at", "closed_at", "overtaken"),
    [(1, 2, True), (2, 2, False), (3, 2, False), (None, 2, False), (1, None, False)],
)
def test_a_new_order_that_was_overtaken(
    state: OrderState, sent_at: int | None, closed_at: int | None, *, overtaken: bool
) -> None:
    """Only an earlier time of the sender's own proves that the cancel or hold is newer."""
    after = decide(Action.CREATE, state, sent_at, closed_at)[1]
    assert (after is state) is overtaken


def test_nothing_but_a_new_order_revives_a_cancelled_one() -> None:
    """A change that straggles behind a cancel changes nothing."""
    reviving = {
        action for action in ORDERS if RULES[action, OrderState.CANCELLED][0] is Step.REGISTER
    }
    assert reviving == {Action.CREATE}


@pytest.mark.parametrize("action", sorted(CLOSING))
@pytest.mark.parametrize(
    ("sent_at", "overtaken"), [(1, True), (2, False), (3, False), (None, False)]
)
def test_what_was_ordered_again_is_not_closed_by_an_older_word(
    action: Action, sent_at: int | None, *, overtaken: bool
) -> None:
    """A cancel or hold that was sent before the newest order or release does nothing."""
    for state in OPEN:
        step, after = decide(action, state, sent_at, None, opened_at=2)
        assert ((step, after) == (Step.NOTHING, state)) is overtaken


@pytest.mark.parametrize("state", OrderState)
def test_examined_puts_on_the_worklist_what_waited(state: OrderState) -> None:
    """Images make an order that was held or awaited ready to read; a cancelled one stays so."""
    step, _ = decide(Action.CHANGE, state, None, None, examined=True)
    assert (step is Step.REGISTER) is (state is not OrderState.CANCELLED)
