"""Which news a loop may write down in its own turn: a few rows, by their keys."""

import pytest

from bridge.intake.process.order_repository import Change
from bridge.store.records.order_index import IndexedOrder, OrderIndexKey
from bridge.store.short_work import SHORT

KEYS = [OrderIndexKey("S", "M", f"A{number}") for number in range(SHORT + 1)]
ORDERS = [IndexedOrder(key, "ordered", 1, 1) for key in KEYS]


def test_what_most_messages_bring_is_brief() -> None:
    """An order, or several."""
    assert Change(1, ORDERS[:1]).is_brief
    assert Change(1, ORDERS[:SHORT]).is_brief


@pytest.mark.parametrize(
    "change",
    [
        Change(1, ORDERS),
        Change(1, [], reports=dict.fromkeys(KEYS, "R")),
        Change(1, [], gone=KEYS),
        Change(1, ORDERS[:13], gone=KEYS[13:]),
    ],
)
def test_many_orders_are_not(change: Change) -> None:
    """Those of a patient whose date of birth is corrected, say: each is a row."""
    assert not change.is_brief
