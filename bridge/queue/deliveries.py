"""
Deliveries: requests, claimed deliveries and outcomes of the outbox.

No I/O. Deliveries have the same states and transitions as messages (`states.TRANSITIONS`).
"""

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from bridge.errors import FailureKind
from bridge.queue.states import QueueEvent

INTERRUPTED: Final = "interrupted"
NOT_CONNECTED: Final = "not_connected"
"""Codes of claims that were returned unsent: this process stopped, or the peer does not listen."""


@dataclass(frozen=True, slots=True)
class DeliveryRequest:
    """
    A result to deliver. `release_key` identifies it within its destination.

    `orders` is a JSON value that is needed to compose the message. Times are in ms. `order` names
    the order within the report if the destination gets a message for each order: then a delivery
    waits only for earlier ones about this order, else for all earlier ones of the report.
    """

    destination: str
    report_id: str
    release_key: str
    event: str
    release_at: int
    orders: Any = None
    order: str = ""


@dataclass(frozen=True, slots=True)
class ClaimedDelivery:
    """
    A delivery that a courier has claimed. `payload` is None until the message is composed.

    `tries` counts the attempts to send, and failures to compose. `attempts` also counts claims that
    were returned unsent. `is_damaged`: the stored message does not have its digest; `payload` is
    None then, and nothing may be sent. `is_repeat`: the receiver has accepted it before.
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
    is_damaged: bool = False
    is_repeat: bool = False

    @property
    def is_unsent(self) -> bool:
        """Whether no message was stored before the claim, and so none was sent."""
        return self.payload is None and not self.is_damaged


current_delivery: ContextVar[ClaimedDelivery | None] = ContextVar("delivery", default=None)
"""The delivery that is being sent. Transports and tracing read it."""


@dataclass(frozen=True, slots=True)
class DeliveryOutcome:
    """
    The outcome of an attempt: ACCEPTED, IGNORED, POSTPONED (with `retry_at`) or GIVEN_UP.

    `reply` is the receiver's reply, if any. `sent_at` is the time at which the bytes were sent.
    `tries` is the count for the next attempt; 0 if none follows automatically. `created_at` is that
    of the claim; None is not compared (see `Settlement`).
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
    created_at: int | None = None
