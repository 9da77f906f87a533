"""Batches (FHS … BHS …): one frame with several messages.

Pure. A batch that cannot be split, or that announces messages and has none, stays one message and
is refused as such. If the announced count differs from the messages that are present, or something
between them is not a message, all messages of the batch are refused: some may be missing.
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

_Item = TypeVar("_Item")
_BLANK = b" \t\r\n\xef\xbb\xbf"
_MARKS = (b"FHS", b"BHS")


def looks_like_batch(payload: bytes) -> bool:
    """Tell whether a payload begins like a batch. Cheap: called for each frame."""
    return not payload.startswith(b"MSH") and payload.lstrip(_BLANK).startswith(_MARKS)


def split_batch(frame: Frame) -> list[Frame]:
    """Return the messages of a batch as frames; each is truncated if the batch is."""
    try:
        messages = split(frame.payload)
    except MalformedMessage:
        messages = None
    if messages is None or (not messages and batch_refusal(frame.payload)):
        return [frame]
    return [Frame(each, frame.truncated) for each in messages]


def batch_refusal(payload: bytes) -> MessageRefusal | None:
    """Return why a batch is refused: a wrong count, or content that is not a message."""
    try:
        if place := stray(payload):
            return MalformedMessage(MalformedReason.STRAY_IN_BATCH, place)
        place = miscounted(payload)
    except MalformedMessage:  # each message is refused for this reason
        return None
    return BatchCountMismatch(place) if place else None


def with_refusal(refusal: MessageRefusal | None, verdict: Verdict) -> Verdict:
    """Add the refusal of its batch to a message's verdict."""
    if refusal is None:
        return verdict
    return verdict._replace(lanes=(), parts=(), refusals=(*verdict.refusals, refusal))


def grouped_like(
    parts: Sequence[Sequence[object]], flat: Sequence[_Item]
) -> Iterator[Sequence[_Item]]:
    """Group the items of `flat` as `parts` is grouped: one item for each element."""
    rest = iter(flat)
    return (list(islice(rest, len(each))) for each in parts)
