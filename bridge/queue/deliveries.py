"""
What the outbox is given, hands out, and is told of.

No I/O. Deliveries live by the same `states.TRANSITIONS` as messages.
"""

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from bridge.errors import FailureKind
from bridge.queue.states import QueueEvent

INTERRUPTED: Final = "interrupted"
NOT_CONNECTED: Final = "not_connected"
"""Codes of what was claimed and given back unsent: our own end, or nobody listens there."""


@dataclass(frozen=True, slots=True)
class DeliveryRequest:
    """
    Something to deliver. `release_key` names it once and for all within its destination.

    `orders` is any JSON value that composing will need; times are in ms.
    """

    destination: str
    report_id: str
    release_key: str
    event: str
    release_at: int
    orders: Any = None


@dataclass(frozen=True, slots=True)
class ClaimedDelivery:
    """
    A delivery whose turn it is. `payload` is None until it has been composed.

    `tries` are the times that it was really sent, or could not be composed; `attempts` also
    has claims that were given back.
    """

    delivery_id: int
    destination: str
    report_id: str
    release_key: str
    event: str
    orders: Any
    control_id: str
    payload: bytes | None
    attempts: int
    release_at: int
    created_at: int
    tries: int = 0


current_delivery: ContextVar[ClaimedDelivery | None] = ContextVar("delivery", default=None)
"""The delivery that is being sent, for whoever watches the sending."""


@dataclass(frozen=True, slots=True)
class DeliveryOutcome:
    """
    What came of an attempt: ACCEPTED, IGNORED, POSTPONED (with `retry_at`) or GIVEN_UP.

    `reply` is what the receiver answered, if anything; `sent_at` is when the bytes went out.
    `tries` is to be kept for the next attempt; 0 where none follows by itself.
    """

    delivery_id: int
    event: QueueEvent
    failure: FailureKind | None = None
    code: str = ""
    detail: str = ""
    retry_at: int | None = None
    reply: bytes | None = None
    sent_at: int | None = None
    tries: int = 0
