"""
What an order event does to an order, given what became of it before: one table.

Pure. HL7 promises no order between messages about one order (cancel before new, change
before new, new twice), so every pair is decided here.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from mappings.events import Action


class OrderState(StrEnum):
    """Where an order stands by the sender's word."""

    UNKNOWN = "unknown"
    ORDERED = "ordered"
    HELD = "held"
    CANCELLED = "cancelled"


class Step(StrEnum):
    """What is done about it."""

    REGISTER = "register"  # launch: it stands on the worklist, with these tags
    WITHDRAW = "withdraw"  # take it off the worklist, unless somebody has begun to read it
    REMEMBER = "remember"  # keep the tags for later, off the worklist
    DETACH = "detach"  # take it out of its group
    NOTHING = "nothing"


Rule = tuple[Step, OrderState]

_U, _O, _H, _C = OrderState
_REGISTER = (Step.REGISTER, OrderState.ORDERED)
_STAYS_HELD = (Step.REMEMBER, OrderState.HELD)
_STAYS_CANCELLED = (Step.NOTHING, OrderState.CANCELLED)
_CANCEL = (Step.WITHDRAW, OrderState.CANCELLED)
_HOLD = (Step.WITHDRAW, OrderState.HELD)

RULES: Mapping[tuple[Action, OrderState], Rule] = MappingProxyType(
    {
        **{(Action.CREATE, state): _REGISTER for state in OrderState},
        (Action.CHANGE, _U): _REGISTER,  # the change overtook the order
        (Action.CHANGE, _O): _REGISTER,
        (Action.CHANGE, _H): _STAYS_HELD,
        (Action.CHANGE, _C): _STAYS_CANCELLED,  # only a new order revives one
        **{(Action.CANCEL, state): _CANCEL for state in OrderState},
        **{(Action.DISCONTINUE, state): _CANCEL for state in OrderState},
        (Action.HOLD, _U): _HOLD,
        (Action.HOLD, _O): _HOLD,
        (Action.HOLD, _H): _STAYS_HELD,
        (Action.HOLD, _C): _STAYS_CANCELLED,
        (Action.RELEASE, _U): _REGISTER,
        (Action.RELEASE, _O): _REGISTER,
        (Action.RELEASE, _H): _REGISTER,
        (Action.RELEASE, _C): _STAYS_CANCELLED,
        (Action.LINK, _U): _REGISTER,
        (Action.LINK, _O): _REGISTER,
        (Action.LINK, _H): _STAYS_HELD,
        (Action.LINK, _C): _STAYS_CANCELLED,
        (Action.UNLINK, _U): (Step.NOTHING, OrderState.UNKNOWN),
        (Action.UNLINK, _O): (Step.DETACH, OrderState.ORDERED),
        (Action.UNLINK, _H): (Step.NOTHING, OrderState.HELD),
        (Action.UNLINK, _C): _STAYS_CANCELLED,
    }
)

OVERTAKEN: Mapping[OrderState, Rule] = MappingProxyType(
    {OrderState.HELD: _STAYS_HELD, OrderState.CANCELLED: _STAYS_CANCELLED}
)
"""What a new order does that was sent before the hold or cancel which arrived first."""


def decide(action: Action, state: OrderState, sent_at: int | None, closed_at: int | None) -> Rule:
    """
    Look the pair up; times (milliseconds, by the senders' MSH-7) only settle overtaking.

    Equal or missing times prove nothing: then the order of arrival counts.
    """
    overtaken = (
        action is Action.CREATE
        and state in OVERTAKEN
        and sent_at is not None
        and closed_at is not None
        and sent_at < closed_at
    )
    return OVERTAKEN[state] if overtaken else RULES[action, state]
