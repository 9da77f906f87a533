"""Abandoned frames: how they are refused, and how many of them a listener stores."""

from collections import deque

from mappings.hl7.refusals import (
    InternalError,
    MalformedMessage,
    MalformedReason,
    MessageRefusal,
)
from mllp.errors import FrameMemoryExhausted, FrameTooLarge, FramingError

MAX_ABANDONED_FRAMES = 100
ABANDONED_FRAMES_SPAN_SECONDS = 3600.0


class AbandonedFrameLimit:
    """Limits the stored abandoned frames of a listener, so that they cannot fill the disk."""

    def __init__(
        self, limit: int = MAX_ABANDONED_FRAMES, span: float = ABANDONED_FRAMES_SPAN_SECONDS
    ) -> None:
        """Allow `limit` frames within any `span` seconds."""
        self._span = span
        self._stored_at: deque[float] = deque(maxlen=limit)

    def may_store(self, now: float) -> bool:
        """True if another frame may be stored at `now` (seconds), and count it if so."""
        full = len(self._stored_at) == self._stored_at.maxlen
        if full and now - self._stored_at[0] < self._span:
            return False
        self._stored_at.append(now)
        return True


def refusal_of(error: FramingError) -> MessageRefusal:
    if isinstance(error, FrameMemoryExhausted):
        return InternalError()  # AE: the same frame may be sent again
    large = isinstance(error, FrameTooLarge)
    return MalformedMessage(MalformedReason.TOO_LARGE if large else MalformedReason.INCOMPLETE)
