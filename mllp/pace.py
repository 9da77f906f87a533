"""
How fast large frames are read: all connections of a listener together, and never faster.

A sender on a quick network fills a large frame as fast as it is read, and whoever reads nothing
else meanwhile has no time for the others; where there are none, nobody is kept waiting. Decides how
long a reader rests; reads nothing itself.
"""

RATE = 16 * 2**20
"""Bytes a second, of all large frames together: a frame of 16 MiB takes a second."""

ALONE = 2.0
"""So many times as fast they are read where nobody sends ordinary ones."""

LOOK = 1.0
"""Seconds after which is seen anew whether somebody does."""

WORTHWHILE = 0.0005
"""Seconds below which a rest is put off: it would cost more than it gives."""


class Pace:
    """Counts what was read of large frames, and `others`' frames; time is the caller's (s)."""

    __slots__ = ("_alone", "_free", "_looked", "_rate", "_seen", "others")

    def __init__(self, rate: float = RATE) -> None:
        self.others = 0
        """Ordinary frames that have come; whoever takes one counts it."""
        self._rate = rate
        self._free = 0.0  # when all that was read would have been, at this rate
        self._alone, self._seen, self._looked = False, 0, 0.0

    def rest(self, size: int, now: float) -> float:
        """Note that so many bytes were read; give the seconds until more should be, 0 for now."""
        passed = now - self._looked
        if passed >= LOOK:
            self._alone = passed < 2 * LOOK and self.others == self._seen
            self._seen, self._looked = self.others, now
        rate = self._rate * ALONE if self._alone else self._rate
        self._free = max(self._free, now) + size / rate
        left = self._free - now
        return left if left >= WORTHWHILE else 0.0
