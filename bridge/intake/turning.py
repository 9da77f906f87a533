"""Where an order stands after an event, and the times that go with it. Pure."""

from dataclasses import replace
from typing import Protocol

from bridge.intake.order_rules import CLOSING, OPEN, ORDERING, OrderState
from bridge.store.message_time import MessageTime, newest
from bridge.store.order_index import IndexedOrder
from mappings.events import Action, OrderEvent


class Said(Protocol):
    """The message: its row id, and when its sender says it was sent."""

    @property
    def message_id(self) -> int:
        """The row."""

    @property
    def sent_at(self) -> MessageTime | None:
        """MSH-7; None: missing or not to be trusted."""


def turned(
    base: IndexedOrder,
    event: OrderEvent,
    before: IndexedOrder | None,
    after: OrderState,
    occasion: Said,
) -> IndexedOrder:
    """Give an order its state after an event, and the times that go with it."""
    state = OrderState(before.state) if before else OrderState.UNKNOWN
    opened = event.action in ORDERING
    return replace(
        base,
        state=after,
        last_message=occasion.message_id,
        turned_at=_turned_at(state, after, base, event, occasion),
        opened_at=newest(base.opened_at, occasion.sent_at) if opened else base.opened_at,
    )


def _turned_at(
    state: OrderState, after: OrderState, base: IndexedOrder, event: OrderEvent, occasion: Said
) -> MessageTime | None:
    """Give the time of the word by which an order is closed, or was put back."""
    stays = state is after or (state in OPEN and after in OPEN)
    known = base.turned_at if stays else None
    turns = event.examined or event.action is Action.RELEASE or event.action in CLOSING
    return newest(known, occasion.sent_at) if turns else known
