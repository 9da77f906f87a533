"""Arrivals: what the intake hands to the ledger, what it gets back, and the keys to find them by.

No I/O. An arrival is a message whose acknowledgment is already written: the ledger keeps both
or neither.

Hashes, so that no index, log or error can tell a patient: 64 bits for keys that are compared
among what is unfinished or shares a control id. What names a patient is keyed (`bridge.index_key`).
"""

from dataclasses import dataclass
from enum import IntFlag
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from bridge.index_key import keyed64
from bridge.queue.states import INITIAL_STATES, AcknowledgmentState, QueueState

MOST_LANES = 2


class MessageFlag(IntFlag):
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

    `identity` and `digest` are as `bridge.queue.ledger.arrivals` makes them. `lanes` are the one or
    two
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


_WIDTH = 8
_DIGITS = b"0123456789"
_LEAST_DIGITS, _MOST_DIGITS = 3, 6
_LONGEST_NAMES = 400
_MOST_STEMS = 256
_LOW = (1 << 20) - 1  # room for the most digits


def signed64(*parts: bytes) -> int:
    """Give 64 bits that depend on each part and on where one ends and the next begins."""
    whole = b""
    for part in parts:
        whole += len(part).to_bytes(_WIDTH) + part
    return int.from_bytes(blake2b(whole, digest_size=_WIDTH).digest(), signed=True)


_known64 = lru_cache(maxsize=1024)(signed64)


def sequential64(*parts: bytes) -> int:
    """
    As `signed64`, but texts that count up give numbers that count up.

    Control ids mostly do, and what arrives together then lies together in an index: a batch
    writes a page or two of it, and not one page for each message. Not for what names a patient:
    the digits can be read.
    """
    last = parts[-1]
    digits = _counting(last)
    if not digits:
        return signed64(*parts)
    return _stem(*parts[:-1], last[:-digits], bytes([digits])) | int(last[-digits:])


def _counting(text: bytes) -> int:
    """Say how many digits at its end count up; 0 where there are too few."""
    digits = len(text) - len(text.rstrip(_DIGITS))
    return min(digits, _MOST_DIGITS) if digits >= _LEAST_DIGITS else 0


def _stem(*parts: bytes) -> int:
    # Senders repeat themselves; what is longer than names are is not worth remembering.
    return (_known64 if sum(map(len, parts)) <= _LONGEST_NAMES else signed64)(*parts) & ~_LOW


def identity(listener: str, application: bytes, facility: bytes, control_id: bytes) -> int:
    """Give what a retransmit has in common with its original: MSH-3, MSH-4 and MSH-10, raw."""
    return sequential64(listener.encode(), application, facility, control_id)


class IdentityHasher:
    """Gives `identity` of one sender's messages: what they have in common is hashed once."""

    __slots__ = ("_names", "_stems")

    def __init__(self, listener: str, application: bytes, facility: bytes) -> None:
        self._names = (listener.encode(), application, facility)
        self._stems: dict[tuple[bytes, int], int] = {}  # beyond _MOST_STEMS all are forgotten

    def __call__(self, control_id: bytes) -> int:
        """Give what a retransmit of this control id has in common with its original."""
        digits = _counting(control_id)
        if not digits:
            return signed64(*self._names, control_id)
        stem = self._stems.get((control_id[:-digits], digits))
        if stem is None:
            stem = _stem(*self._names, control_id[:-digits], bytes([digits]))
            if len(self._stems) >= _MOST_STEMS:
                self._stems.clear()
            self._stems[control_id[:-digits], digits] = stem
        return stem | int(control_id[-digits:])


def digest(payload: bytes) -> bytes:
    """Give the 16 bytes that tell a retransmit from a control id used again."""
    return blake2b(payload, digest_size=16).digest()


def lane(*key: str) -> int:
    """Give the lane of a key, such as a site and its patient's number."""
    return keyed64(signed64(*[part.encode() for part in key]))
