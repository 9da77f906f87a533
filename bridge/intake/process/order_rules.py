"""Order rules: what an order event does to an order, given its state. One table.

Pure. HL7 promises no order between messages about one order (cancel before new, change
before new, new twice), so every pair is decided here.
"""

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol

from bridge.store.records.message_time import MessageTime, is_earlier, newest
from bridge.store.records.order_index import IndexedOrder
from mappings.inbound.events import OrderAction, OrderEvent

PATIENTS = frozenset(
    {OrderAction.PATIENT_UPDATE, OrderAction.PATIENT_MERGE, OrderAction.VISIT_MOVE}
)
"""Actions on a patient, whatever orders there are."""

ORDERS = frozenset(OrderAction) - PATIENTS - {OrderAction.IGNORE}


class OrderState(StrEnum):
    """Where an order stands by the sender's word."""

    UNKNOWN = "unknown"
    ORDERED = "ordered"
    HELD = "held"
    CANCELLED = "cancelled"
    AWAITED = "awaited"  # not examined yet, where the definition wants to wait for that


class Step(StrEnum):
    """What is done about it."""

    REGISTER = "register"  # launch: it stands on the worklist, with these tags
    WITHDRAW = "withdraw"  # take it off the worklist, unless somebody has begun to read it
    REMEMBER = "remember"  # keep the tags for later, off the worklist
    DETACH = "detach"  # take it out of its group
    NOTHING = "nothing"


Rule = tuple[Step, OrderState]

_U, _O, _H, _C, _A = OrderState
_REGISTER = (Step.REGISTER, OrderState.ORDERED)
_STAYS_HELD = (Step.REMEMBER, OrderState.HELD)
_ORDER_CANCELLED = (Step.NOTHING, OrderState.CANCELLED)
_AWAITS = (Step.REMEMBER, OrderState.AWAITED)
_CANCEL = (Step.WITHDRAW, OrderState.CANCELLED)
_HOLD = (Step.WITHDRAW, OrderState.HELD)

RULES: Mapping[tuple[OrderAction, OrderState], Rule] = MappingProxyType(
    {
        **{(OrderAction.CREATE, state): _REGISTER for state in OrderState},
        (OrderAction.CHANGE, _U): _REGISTER,  # the change overtook the order
        (OrderAction.CHANGE, _O): _REGISTER,
        (OrderAction.CHANGE, _H): _STAYS_HELD,
        (OrderAction.CHANGE, _C): _ORDER_CANCELLED,  # only a new order revives one
        (OrderAction.CHANGE, _A): _AWAITS,
        (OrderAction.AWAIT, _U): _AWAITS,
        (OrderAction.AWAIT, _O): _REGISTER,  # it was examined before
        (OrderAction.AWAIT, _H): _STAYS_HELD,
        (OrderAction.AWAIT, _C): _AWAITS,
        (OrderAction.AWAIT, _A): _AWAITS,
        **{(OrderAction.CANCEL, state): _CANCEL for state in OrderState},
        **{(OrderAction.DISCONTINUE, state): _CANCEL for state in OrderState},
        **{(OrderAction.REPLACE, state): _CANCEL for state in OrderState},
        (OrderAction.HOLD, _U): _HOLD,
        (OrderAction.HOLD, _O): _HOLD,
        (OrderAction.HOLD, _H): _STAYS_HELD,
        (OrderAction.HOLD, _C): _ORDER_CANCELLED,
        (OrderAction.HOLD, _A): _HOLD,
        (OrderAction.RELEASE, _U): _REGISTER,
        (OrderAction.RELEASE, _O): _REGISTER,
        (OrderAction.RELEASE, _H): _REGISTER,
        (OrderAction.RELEASE, _C): _ORDER_CANCELLED,
        (OrderAction.RELEASE, _A): _AWAITS,
        (OrderAction.LINK, _U): _REGISTER,
        (OrderAction.LINK, _O): _REGISTER,
        (OrderAction.LINK, _H): _STAYS_HELD,
        (OrderAction.LINK, _C): _ORDER_CANCELLED,
        (OrderAction.LINK, _A): _AWAITS,
        (OrderAction.UNLINK, _U): (Step.NOTHING, OrderState.UNKNOWN),
        (OrderAction.UNLINK, _O): (Step.DETACH, OrderState.ORDERED),
        (OrderAction.UNLINK, _H): (Step.NOTHING, OrderState.HELD),
        (OrderAction.UNLINK, _C): _ORDER_CANCELLED,
        (OrderAction.UNLINK, _A): (Step.NOTHING, OrderState.AWAITED),
    }
)

EXAMINED: Mapping[OrderState, Rule] = MappingProxyType(
    {OrderState.HELD: _REGISTER, OrderState.AWAITED: _REGISTER}
)
"""What `examined` does, where it does anything: there are images that wait to be read."""

ORDERING = frozenset({OrderAction.CREATE, OrderAction.AWAIT})
"""Actions that bring an order into being."""

CLOSING = frozenset(
    {OrderAction.CANCEL, OrderAction.DISCONTINUE, OrderAction.REPLACE, OrderAction.HOLD}
)
"""Actions that take an order off the worklist."""

OPENING = ORDERING | {OrderAction.RELEASE}
"""Actions after which an order stands again, whatever was said before."""

OPEN = frozenset({OrderState.ORDERED, OrderState.AWAITED})
"""States of an order that is to be read."""

CASCADING = frozenset(
    {OrderAction.CANCEL, OrderAction.DISCONTINUE, OrderAction.HOLD, OrderAction.RELEASE}
)
"""Actions on a parent that are its children's too (HL7 v2.5.1 §4.5.1.1, PA and CH)."""

OVERTAKEN: Mapping[OrderState, Rule] = MappingProxyType(
    {OrderState.HELD: _STAYS_HELD, OrderState.CANCELLED: _ORDER_CANCELLED}
)
"""What an order, a release or an examination does that was sent before the hold or cancel."""


def decide(
    action: OrderAction,
    state: OrderState,
    sent_at: MessageTime | None,
    turned_at: MessageTime | None,
    *,
    opened_at: MessageTime | None = None,
    examined: bool = False,
    came_first: bool = False,
) -> Rule:
    """Look the pair up; times only settle who was overtaken. `came_first`: it is tried again."""
    overtaken = is_earlier(sent_at, turned_at, came_first=came_first)
    if (action in OPENING or examined) and state in OVERTAKEN and overtaken:
        return OVERTAKEN[state]
    if action in CLOSING and state in {*OPEN, OrderState.HELD} and is_earlier(sent_at, opened_at):
        return Step.NOTHING, state  # it was ordered again since
    if action is OrderAction.HOLD and state in OPEN and is_earlier(sent_at, turned_at):
        return Step.NOTHING, state  # it was released or examined since
    if examined and state in EXAMINED:
        return EXAMINED[state]
    return RULES[action, state]


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
    turns = event.examined or event.action is OrderAction.RELEASE or event.action in CLOSING
    return newest(known, occasion.sent_at) if turns else known
