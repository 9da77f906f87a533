"""
Arrivals, receipts, and the hashes by which messages are found.

No I/O. An arrival is a message with its acknowledgment; the message log stores both or neither.

Keys are stored as hashes, so that no index, log or error identifies a patient. 64 bits suffice for
keys that are compared among unfinished messages or messages with one control id. Hashes of patient
identifiers are keyed (`bridge.index_key`).
"""

from dataclasses import dataclass
from enum import IntFlag
from functools import lru_cache
from typing import NamedTuple

from bridge.index_key import keyed64, signed64
from bridge.queue.states import INITIAL_STATES, AcknowledgmentState, QueueState

MAX_LANES = 2


class MessageFlag(IntFlag):
    NONE = 0
    CHARSET_SUSPECT = 1  # its bytes do not match MSH-18
    REUSED_CONTROL_ID = 2  # an earlier message with other content had the same control id
    CORRECTED = 4  # the same bytes were refused before
    PART = 8  # one part of a message about several patients; see PART_NUMBER_SHIFT


PART_NUMBER_SHIFT = 8
"""Bits of the flags below the number of a part; part 0 has the acknowledgment."""


@dataclass(slots=True)  # not frozen: freezing costs a third of the creation time
class Arrival:
    """
    A received message and its acknowledgment. Treat it as immutable.

    `bridge.intake.receive.acknowledgments` makes `identity`, `bridge.queue.digests` makes `digest`.
    `lanes` are one or two keys that define the order of processing; none for a refused message.
    `received_at` is in ms.
    `refuse_reuse` is the negative ACK to store and send instead, with `refuse_reuse_code`, if
    another message has used the control id.
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
    state: QueueState
    received_at: int
    error_code: str = ""
    error_place: str = ""
    flags: int = 0
    acknowledgment: AcknowledgmentState = AcknowledgmentState.PENDING
    refuse_reuse: bytes | None = None
    refuse_reuse_code: str = "AE"

    def __post_init__(self) -> None:
        if self.state not in INITIAL_STATES:
            raise ValueError(f"an arrival cannot have the state {self.state}")
        lanes = self.lanes
        if len(lanes) > MAX_LANES or (len(lanes) > 1 and lanes[0] == lanes[1]):
            raise ValueError("a message has at most two lanes, and each once")

    @property
    def is_later_part(self) -> bool:
        """Whether it is a part of the message whose part 0 precedes it in the batch."""
        return bool(self.flags & MessageFlag.PART and self.flags >> PART_NUMBER_SHIFT)


class Receipt(NamedTuple):
    """
    The result of storing an arrival durably: the acknowledgment to send.

    For a `duplicate` it is the acknowledgment of the original, and `message_id` is the original's.
    `reused` tells that another message has used the control id.
    """

    message_id: int
    ack: bytes
    ack_code: str
    duplicate: bool
    reused: bool


_DIGITS = b"0123456789"
_MIN_DIGITS, _MAX_DIGITS = 3, 6
_MAX_CACHED_BYTES = 400
_LOW = (1 << 20) - 1  # bits that hold _MAX_DIGITS digits


_cached64 = lru_cache(maxsize=1024)(signed64)


def sequential64(*parts: bytes) -> int:
    """
    As `signed64`, but values with consecutive numbers at their end get consecutive hashes.

    Most control ids count up. Messages that arrive together then lie together in an index, and a
    batch writes one or two index pages instead of one for each message. Not for patient
    identifiers: the digits are readable.
    """
    last = parts[-1]
    digits = _trailing_digits(last)
    if not digits:
        return signed64(*parts)
    return _stem(*parts[:-1], last[:-digits], bytes([digits])) | int(last[-digits:])


def _trailing_digits(text: bytes) -> int:
    """Return the number of digits at the end that count up; 0 if there are too few."""
    digits = len(text) - len(text.rstrip(_DIGITS))
    return min(digits, _MAX_DIGITS) if digits >= _MIN_DIGITS else 0


def _stem(*parts: bytes) -> int:
    # Names of senders repeat. Longer values are not cached.
    return (_cached64 if sum(map(len, parts)) <= _MAX_CACHED_BYTES else signed64)(*parts) & ~_LOW


def lane(*key: str) -> int:
    """Return the lane of a key, such as a site and a patient number."""
    return keyed64(signed64(*[part.encode() for part in key]))


def flags_of_part(flags: int, number: int) -> int:
    """Return the flags of the row with part `number` (from 0) of its message."""
    return flags | MessageFlag.PART | number << PART_NUMBER_SHIFT


def part_number(flags: int) -> int | None:
    """Return the number of the part in a row; None if the row holds the whole message."""
    return flags >> PART_NUMBER_SHIFT if flags & MessageFlag.PART else None
