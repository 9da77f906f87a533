"""
What the intake hands to the ledger, and what it gets back.

No I/O. An arrival is a message whose acknowledgment is already written: the ledger keeps both
or neither.
"""

from dataclasses import dataclass
from enum import IntFlag
from typing import NamedTuple

from bridge.queue.states import ENTRY, Acknowledgment, State

MOST_LANES = 2


class Flag(IntFlag):
    """What was odd about a message that was stored all the same."""

    NONE = 0
    CHARSET_SUSPECT = 1  # its bytes are not what MSH-18 says
    REUSED_CONTROL_ID = 2  # an earlier message with other content had the same control id
    CORRECTED = 4  # the very same bytes were refused before
    PART = 8  # one part of a message about several patients; which one, the bits above 7 say


@dataclass(slots=True)  # not frozen: one is made for every message, and freezing costs a third
class Arrival:
    """
    One message as it arrived, and how it is to be answered. Nobody changes it.

    `identity` and `digest` are as `bridge.queue.hashing` makes them. `lanes` are the one or two
    keys in whose order it is to be applied; none for what is refused. `received_at` is in ms.
    `refuse_reuse`, where given, is the negative ACK to keep and send instead, with
    `refuse_reuse_code`, when another message has already used the control id.
    """

    listener: str
    identity: int
    digest: bytes
    payload: bytes
    lanes: tuple[int, ...]
    message_type: str
    mapping: str
    mapping_version: str
    ack: bytes
    ack_code: str
    state: State
    received_at: int
    error_code: str = ""
    error_place: str = ""
    flags: int = 0
    acknowledgment: Acknowledgment = Acknowledgment.PENDING
    refuse_reuse: bytes | None = None
    refuse_reuse_code: str = "AE"

    def __post_init__(self) -> None:
        if self.state not in ENTRY:
            raise ValueError(f"nothing arrives {self.state}")
        lanes = self.lanes
        if len(lanes) > MOST_LANES or (len(lanes) > 1 and lanes[0] == lanes[1]):
            raise ValueError("a message has at most two lanes, and each once")


class Receipt(NamedTuple):
    """
    Stored, durably: what the sender is to be told.

    For a `duplicate` that is what it was told the first time, and `message_id` is the first's.
    `reused` says that its control id had belonged to another message.
    """

    message_id: int
    ack: bytes
    ack_code: str
    duplicate: bool
    reused: bool
