"""What operators are shown of messages and deliveries.

No I/O. Fields are named as the columns; times are in ms; none of a row's fields bears patient
data. The details do.
"""

from dataclasses import dataclass
from typing import Any

from bridge.queue.states import AcknowledgmentState, QueueState


@dataclass(frozen=True, slots=True)
class MessageRow:
    """One stored message, without its content."""

    id: int
    received_at: int
    listener: str
    message_type: str
    mapping: str
    mapping_version: str
    state: QueueState
    ack_code: str
    acknowledgment: AcknowledgmentState
    retransmits: int
    flags: int
    attempts: int
    not_before: int
    error_code: str
    error_place: str
    failure: str
    code: str
    detail: str
    settled_at: int | None


@dataclass(frozen=True, slots=True)
class MessageDetail:
    """One stored message with its content, the ACK it got, and the notes of its worker."""

    row: MessageRow
    payload: bytes
    ack: bytes
    notes: Any


@dataclass(frozen=True, slots=True)
class DeliveryRow:
    """One delivery, without its content."""

    id: int
    destination: str
    report_id: str
    release_key: str
    event: str
    state: QueueState
    control_id: str
    attempts: int
    not_before: int
    failure: str
    code: str
    detail: str
    release_at: int
    created_at: int
    sent_at: int | None
    acknowledged_at: int | None
    settled_at: int | None


@dataclass(frozen=True, slots=True)
class DeliveryDetail:
    """One delivery with the message as it was composed, and the receiver's last reply."""

    row: DeliveryRow
    orders: Any
    payload: bytes | None
    reply: bytes | None


@dataclass(frozen=True, slots=True)
class Depth:
    """How many are in a state, and when the oldest of them came (ms)."""

    count: int
    oldest: int
