"""
Batches (FHS … BHS …): one frame, several messages.

Pure. What cannot be split is left whole: it will be refused as a single message.
"""

from mappings.hl7.batch import split
from mappings.hl7.refusals import Malformed
from mllp.framing import Frame

_BLANK = b" \t\r\n\xef\xbb\xbf"
_MARKS = (b"FHS", b"BHS")


def looks_like_batch(payload: bytes) -> bool:
    """Tell cheaply whether it is worth trying to split a payload."""
    return not payload.startswith(b"MSH") and payload.lstrip(_BLANK).startswith(_MARKS)


def open_batch(frame: Frame) -> list[Frame]:
    """Give the messages of a batch as frames of their own, each as truncated as the whole."""
    try:
        messages = split(frame.payload)
    except Malformed:
        messages = None
    if messages is None:
        return [frame]
    return [Frame(each, frame.truncated) for each in messages]
