"""
How many frames that never became messages a listener keeps for people to look at.

Pure: the caller keeps them, and tells the time. Beyond the bound they are only counted: whoever
knocks at a port all day must not fill the disk.
"""

from collections import deque

MOST = 100
SPAN = 3600.0  # seconds in which so many may be kept


class Remnants:
    """Counts what one listener has kept of late."""

    def __init__(self, most: int = MOST, span: float = SPAN) -> None:
        """Allow `most` within any `span` seconds."""
        self._span = span
        self._kept: deque[float] = deque(maxlen=most)

    def may_keep(self, now: float) -> bool:
        """Say whether one more may be kept now (seconds), and count it if so."""
        full = len(self._kept) == self._kept.maxlen
        if full and now - self._kept[0] < self._span:
            return False
        self._kept.append(now)
        return True
