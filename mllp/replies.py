"""
Replies leave in the order of their frames, whatever order they become ready in.

Pure: knows neither transport nor handler.
"""

from collections import deque
from collections.abc import Sequence


class Slot:
    """The place of one frame's replies."""

    __slots__ = ("failed", "replies", "size")

    def __init__(self, size: int) -> None:
        self.replies: Sequence[bytes] | None = None
        self.failed = False
        self.size = size
        """Bytes of the frame."""


class ReplyQueue:
    """The frames of one connection that are in hand, oldest first."""

    __slots__ = ("_slots",)

    def __init__(self) -> None:
        self._slots: deque[Slot] = deque()

    def __len__(self) -> int:
        return len(self._slots)

    def reserve(self, size: int = 0) -> Slot:
        """Take the next place in the line, for a frame of so many bytes."""
        slot = Slot(size)
        self._slots.append(slot)
        return slot

    def ready(self) -> list[bytes]:
        """Take all payloads that may leave now: those before the first frame still in hand."""
        payloads: list[bytes] = []
        slots = self._slots
        while slots and not slots[0].failed and (replies := slots[0].replies) is not None:
            payloads += replies
            slots.popleft()
        return payloads

    @property
    def broken(self) -> bool:
        """Whether it is the turn of a frame that will not be answered: nothing may pass it."""
        return bool(self._slots) and self._slots[0].failed
