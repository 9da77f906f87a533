"""The transition of an order for each event and state: one table.

HL7 does not guarantee the order of messages about one order (a cancellation before the
order, a change before the order, an order twice), so that each pair has a rule.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

from bridge.orders.order import OPEN_STATES, Order, OrderState
from bridge.orders.times import MessageTime, is_earlier, newest
from mappings.inbound.events import OrderAction, OrderEvent

PATIENT_ACTIONS = frozenset(
    {
        OrderAction.PATIENT_UPDATE,
        OrderAction.PATIENT_MERGE,
        OrderAction.PATIENT_UNMERGE,
        OrderAction.VISIT_MOVE,
    }
)
"""Actions on a patient, independent of orders."""

ADDRESSED_ACTIONS = frozenset(OrderAction) - PATIENT_ACTIONS - {OrderAction.IGNORE}
"""Actions that are about an order of a patient."""

ORDER_ACTIONS = ADDRESSED_ACTIONS - {OrderAction.OUTSIDE_REPORT}
"""Actions with transitions. An outside report of a known order becomes `REPORTED`."""


class OrderStep(StrEnum):
    """The step that an event requires."""

    REGISTER = "register"  # launch: put it on the worklist with these tags
    WITHDRAW = "withdraw"  # take it off the worklist, unless its report was begun
    REMEMBER = "remember"  # store the values, off the worklist
    DETACH = "detach"  # take it out of its group
    REPORT_ELSEWHERE = "report elsewhere"  # launch, and mark it as reported elsewhere
    NOTHING = "nothing"


Transition = tuple[OrderStep, OrderState]

_U, _O, _H, _C, _A, _R = OrderState
_REGISTER = (OrderStep.REGISTER, OrderState.ORDERED)
_STAYS_HELD = (OrderStep.REMEMBER, OrderState.HELD)
_ORDER_CANCELLED = (OrderStep.NOTHING, OrderState.CANCELLED)
_STAYS_AWAITED = (OrderStep.REMEMBER, OrderState.AWAITED)
_CANCEL = (OrderStep.WITHDRAW, OrderState.CANCELLED)
_HOLD = (OrderStep.WITHDRAW, OrderState.HELD)
_REPORTED = (OrderStep.REPORT_ELSEWHERE, OrderState.REPORTED)

TRANSITIONS: Mapping[tuple[OrderAction, OrderState], Transition] = MappingProxyType(
    {
        **{(OrderAction.CREATE, state): _REGISTER for state in OrderState},
        (OrderAction.CHANGE, _U): _REGISTER,  # the change arrived before the order
        (OrderAction.CHANGE, _O): _REGISTER,
        (OrderAction.CHANGE, _H): _STAYS_HELD,
        (OrderAction.CHANGE, _C): _ORDER_CANCELLED,  # only a new order reopens it
        (OrderAction.CHANGE, _A): _STAYS_AWAITED,
        (OrderAction.CHANGE, _R): _REPORTED,
        (OrderAction.AWAIT, _U): _STAYS_AWAITED,
        (OrderAction.AWAIT, _O): _REGISTER,  # it was examined before
        (OrderAction.AWAIT, _H): _STAYS_HELD,
        (OrderAction.AWAIT, _C): _STAYS_AWAITED,
        (OrderAction.AWAIT, _A): _STAYS_AWAITED,
        (OrderAction.AWAIT, _R): (OrderStep.WITHDRAW, OrderState.AWAITED),  # ordered again
        **{(OrderAction.CANCEL, state): _CANCEL for state in OrderState},
        **{(OrderAction.DISCONTINUE, state): _CANCEL for state in OrderState},
        **{(OrderAction.REPLACE, state): _CANCEL for state in OrderState},
        (OrderAction.HOLD, _U): _HOLD,
        (OrderAction.HOLD, _O): _HOLD,
        (OrderAction.HOLD, _H): _STAYS_HELD,
        (OrderAction.HOLD, _C): _ORDER_CANCELLED,
        (OrderAction.HOLD, _A): _HOLD,
        (OrderAction.HOLD, _R): _REPORTED,
        (OrderAction.RELEASE, _U): _REGISTER,
        (OrderAction.RELEASE, _O): _REGISTER,
        (OrderAction.RELEASE, _H): _REGISTER,
        (OrderAction.RELEASE, _C): _ORDER_CANCELLED,
        (OrderAction.RELEASE, _A): _STAYS_AWAITED,
        (OrderAction.RELEASE, _R): _REGISTER,
        **{(OrderAction.REPORTED, state): _REPORTED for state in (_U, _O, _H, _A, _R)},
        (OrderAction.REPORTED, _C): _ORDER_CANCELLED,
        (OrderAction.LINK, _U): _REGISTER,
        (OrderAction.LINK, _O): _REGISTER,
        (OrderAction.LINK, _H): _STAYS_HELD,
        (OrderAction.LINK, _C): _ORDER_CANCELLED,
        (OrderAction.LINK, _A): _STAYS_AWAITED,
        (OrderAction.LINK, _R): _REPORTED,
        (OrderAction.UNLINK, _U): (OrderStep.NOTHING, OrderState.UNKNOWN),
        (OrderAction.UNLINK, _O): (OrderStep.DETACH, OrderState.ORDERED),
        (OrderAction.UNLINK, _H): (OrderStep.NOTHING, OrderState.HELD),
        (OrderAction.UNLINK, _C): _ORDER_CANCELLED,
        (OrderAction.UNLINK, _A): (OrderStep.NOTHING, OrderState.AWAITED),
        (OrderAction.UNLINK, _R): (OrderStep.NOTHING, OrderState.REPORTED),
    }
)

EXAMINED_TRANSITIONS: Mapping[OrderState, Transition] = MappingProxyType(
    {
        OrderState.HELD: _REGISTER,
        OrderState.AWAITED: _REGISTER,
        OrderState.REPORTED: _REGISTER,  # examined again
    }
)
"""Transitions of an examined order: there are images to read."""

CREATING_ACTIONS = frozenset({OrderAction.CREATE, OrderAction.AWAIT})
"""Actions that create an order."""

CLOSING_ACTIONS = frozenset(
    {OrderAction.CANCEL, OrderAction.DISCONTINUE, OrderAction.REPLACE, OrderAction.HOLD}
)
"""Actions that take an order off the worklist."""

OPENING_ACTIONS = CREATING_ACTIONS | {OrderAction.RELEASE}
"""Actions that open an order, in any state."""

CASCADING_ACTIONS = frozenset(
    {OrderAction.CANCEL, OrderAction.DISCONTINUE, OrderAction.HOLD, OrderAction.RELEASE}
)
"""Actions on a parent that apply to its children too (HL7 v2.5.1 §4.5.1.1, PA and CH)."""

_LEFT = frozenset({OrderState.ORDERED, OrderState.AWAITED, OrderState.HELD, OrderState.REPORTED})
AFFECTED_STATES: Mapping[OrderAction, frozenset[OrderState]] = MappingProxyType(
    {
        OrderAction.CHANGE: _LEFT,
        OrderAction.CANCEL: _LEFT,
        OrderAction.DISCONTINUE: _LEFT,
        OrderAction.REPLACE: _LEFT,
        OrderAction.REPORTED: _LEFT,
        OrderAction.HOLD: OPEN_STATES,
        OrderAction.RELEASE: frozenset({OrderState.HELD}),
    }
)
"""States of the orders that a change, closing or release affects."""

OVERTAKEN_TRANSITIONS: Mapping[OrderState, Transition] = MappingProxyType(
    {
        OrderState.HELD: _STAYS_HELD,
        OrderState.CANCELLED: _ORDER_CANCELLED,
        OrderState.REPORTED: _REPORTED,
    }
)
"""
Transitions of an order, release or examination that was sent before the hold, cancellation or
report elsewhere.
"""


def decide(
    action: OrderAction,
    state: OrderState,
    sent_at: MessageTime | None,
    state_changed_at: MessageTime | None,
    *,
    opened_at: MessageTime | None = None,
    examined: bool = False,
    came_first: bool = False,
) -> Transition:
    """
    Return the transition. Times decide only which message was sent later.

    `came_first`: the message arrived before the last applied one and is tried again.
    """
    overtaken = is_earlier(sent_at, state_changed_at, came_first=came_first)
    if (action in OPENING_ACTIONS or examined) and state in OVERTAKEN_TRANSITIONS and overtaken:
        return OVERTAKEN_TRANSITIONS[state]
    if (
        action in CLOSING_ACTIONS | {OrderAction.REPORTED}
        and state in {*OPEN_STATES, OrderState.HELD, OrderState.REPORTED}
        and is_earlier(sent_at, opened_at)
    ):
        return OrderStep.NOTHING, state  # ordered again later
    if (
        action in {OrderAction.HOLD, OrderAction.REPORTED}
        and state in OPEN_STATES
        and is_earlier(sent_at, state_changed_at)
    ):
        return OrderStep.NOTHING, state  # released or examined later
    if examined and state in EXAMINED_TRANSITIONS:
        return EXAMINED_TRANSITIONS[state]
    return TRANSITIONS[action, state]


@dataclass(frozen=True, slots=True)
class SourceMessage:
    """The message of an event: row id and sending time (None: missing or not reliable)."""

    message_id: int
    sent_at: MessageTime | None

    def is_behind(self, order: Order | None) -> bool:
        """True if it arrived before the message that was last applied to an order."""
        return order is not None and self.message_id < order.last_message


def with_state(
    base: Order,
    event: OrderEvent,
    before: Order | None,
    after: OrderState,
    source: SourceMessage,
) -> Order:
    """Set the state of an order after an event, and the times that belong to it."""
    state = before.state if before else OrderState.UNKNOWN
    opened = event.action in CREATING_ACTIONS
    return replace(
        base,
        state=after,
        last_message=source.message_id,
        state_changed_at=_state_changed_at(state, after, base, event, source),
        opened_at=newest(base.opened_at, source.sent_at) if opened else base.opened_at,
    )


def _state_changed_at(
    state: OrderState,
    after: OrderState,
    base: Order,
    event: OrderEvent,
    source: SourceMessage,
) -> MessageTime | None:
    """Return the time of the last message that closed or reopened the order."""
    unchanged = state is after or (state in OPEN_STATES and after in OPEN_STATES)
    known = base.state_changed_at if unchanged else None
    reopens_or_closes = (
        event.examined
        or event.action in {OrderAction.RELEASE, OrderAction.REPORTED}
        or event.action in CLOSING_ACTIONS
    )
    return newest(known, source.sent_at) if reopens_or_closes else known
