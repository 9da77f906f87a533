"""Batches (FHS … BHS …): one frame, several messages.

Pure. What cannot be split is left whole: it will be refused as a single message. So is a batch
that announces messages and has none. Where others than those that came were announced, or something
stands between them that is no message, none of them is taken: nobody knows what is missing.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TypeVar

from bridge.intake.receive.verdict import Verdict
from mappings.hl7.batch import miscounted, split, stray
from mappings.hl7.refusals import (
    BatchCountMismatch,
    MalformedMessage,
    MalformedReason,
    MessageRefusal,
)
from mllp.framing import Frame

_Any = TypeVar("_Any")
_BLANK = b" \t\r\n\xef\xbb\xbf"
_MARKS = (b"FHS", b"BHS")


def looks_like_batch(payload: bytes) -> bool:
    """Tell cheaply whether it is worth trying to split a payload."""
    return not payload.startswith(b"MSH") and payload.lstrip(_BLANK).startswith(_MARKS)


def open_batch(frame: Frame) -> list[Frame]:
    """Give the messages of a batch as frames of their own, each as truncated as the whole."""
    try:
        messages = split(frame.payload)
    except MalformedMessage:
        messages = None
    if messages is None or (not messages and flaw(frame.payload)):
        return [frame]
    return [Frame(each, frame.truncated) for each in messages]


def flaw(payload: bytes) -> MessageRefusal | None:
    """Say why nothing of a batch can be taken: the numbers it announces, or what is no message."""
    try:
        if place := stray(payload):
            return MalformedMessage(MalformedReason.STRAY_IN_BATCH, place)
        place = miscounted(payload)
    except MalformedMessage:  # each of its messages is refused for that
        return None
    return BatchCountMismatch(place) if place else None


def unless(refusal: MessageRefusal | None, verdict: Verdict) -> Verdict:
    """Refuse a message of a batch that is refused as a whole, beside what is wrong with it."""
    if refusal is None:
        return verdict
    return verdict._replace(lanes=(), parts=(), refusals=(*verdict.refusals, refusal))


def like(parts: Sequence[Sequence[object]], flat: Sequence[_Any]) -> Iterator[Sequence[_Any]]:
    """Divide what is in one row as its messages were divided into parts."""
    rest = iter(flat)
    return (list(islice(rest, len(each))) for each in parts)
