"""
From which id on to look for what is due, on PostgreSQL.

What waits is nearly always among the newest. So a look at all partitions, and at all that was
claimed and is not cleaned up yet, is needed only now and then, for what was put off long ago or is
replayed; in between, the others are left alone. Pure: the caller keeps time. Nothing is lost by
it: lanes keep the order, whatever was looked at.
"""

from collections.abc import Collection, Sequence

EVERY = 5.0
"""Seconds between looks at everything: so late may be noticed what an old message waits for."""

SOON = 0.25
"""Seconds between them where others say that something old may be due."""

MARGIN = 20_000
"""So far below what was seen may another's transaction still have to commit."""

PARTS = 100_000
"""Partitions are named by whole ones of these: so there are few statements to prepare."""


class Floor:
    """What one worker remembers of where it found something."""

    def __init__(self, every: float = EVERY, margin: int = MARGIN) -> None:
        self._every = every
        self._margin = margin
        self._everything_at = float("-inf")
        self._id = 0
        self._newest = 0
        self._hurried = False

    def hurry(self) -> None:
        """Look at everything soon: somebody may have queued what is old. From any thread."""
        self._hurried = True

    def at(self, now: float) -> int:
        """Give the id from which on to look, 0 for all of them; `now` is in seconds."""
        if now < self._everything_at + (min(SOON, self._every) if self._hurried else self._every):
            return self._id
        self._hurried = False  # whoever hurries us from now on may have come too late for this
        return 0

    def found(self, floor: int, ids: Sequence[int], now: float) -> None:
        """Take note of the candidates that a look from `floor` on has found."""
        self._newest = max(self._newest, *ids) if ids else self._newest
        if floor == 0:
            self._everything_at = now
            self._id = max(0, min([self._newest, *ids]) - self._margin)

    @staticmethod
    def of_partitions(floor: int) -> int:
        """Give the id below which partitions are left alone: what was put off is rarely older."""
        return max(0, floor - PARTS) // PARTS * PARTS

    def moved_up(self, ids: Collection[int]) -> None:
        """Take note of those that nothing stands before any more, however old they are."""
        self._id = min([self._id, *ids])
