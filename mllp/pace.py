"""
How fast large frames are read: all connections of a listener together, and never faster.

A sender on a quick network fills a large frame as fast as it is read, and whoever reads nothing
else meanwhile has no time for the others. Decides how long a reader rests; reads nothing itself.
"""

RATE = 32 * 2**20
"""Bytes a second, of all large frames together: a frame of 16 MiB takes half a second."""

WORTHWHILE = 0.0005
"""Seconds below which a rest is put off: it would cost more than it gives."""


class Pace:
    """Counts what was read of large frames; time is the caller's, in seconds."""

    __slots__ = ("_free", "_rate")

    def __init__(self, rate: float = RATE) -> None:
        self._rate = rate
        self._free = 0.0  # when all that was read would have been, at this rate

    def rest(self, size: int, now: float) -> float:
        """Note that so many bytes were read; give the seconds until more should be, 0 for now."""
        self._free = max(self._free, now) + size / self._rate
        left = self._free - now
        return left if left >= WORTHWHILE else 0.0
