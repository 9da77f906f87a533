"""
Rows of messages and deliveries for operators.

No I/O. Fields have the names of the columns. Times are in ms. Rows contain no patient data; the
details do.
"""

from dataclasses import dataclass
from typing import Any

from bridge.queue.notes import MessageNotes
from bridge.queue.states import AcknowledgmentState, QueueState


@dataclass(frozen=True, slots=True)
class MessageRow:
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
    """
    A stored message with its payload, its ACK, and the notes of the worker.

    `is_damaged`: the payload does not have the digest with which it was stored.
    """

    row: MessageRow
    payload: bytes
    ack: bytes
    notes: MessageNotes
    is_damaged: bool = False


@dataclass(frozen=True, slots=True)
class DeliveryRow:
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
    """
    A delivery with the composed message and the receiver's last reply.

    `is_damaged`: the payload does not have the digest with which it was stored.
    """

    row: DeliveryRow
    orders: Any
    payload: bytes | None
    reply: bytes | None
    is_damaged: bool = False


@dataclass(frozen=True, slots=True)
class Depth:
    """The number of rows in a state, and the time (ms) at which the oldest was stored."""

    count: int
    oldest: int
