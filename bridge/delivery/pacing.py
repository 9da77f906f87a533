"""
How many reports to ask for at a time, where others ask the same service meanwhile.

An answer about many keeps them waiting for as long as it is made; many answers about few cost the
way there and back each time. Pure: the caller asks, and keeps time.
"""

LEAST, MOST = 50, 500
BEARABLE = 0.0025
"""Seconds that the making of one answer may take."""

_WEIGHT = 0.2  # of the newest answers in the average
_LESS = 0.7  # of the size, every other time: two sizes tell what is the way and what the making


class Pace:
    """Watches answers; `size` is for the next one."""

    def __init__(self) -> None:
        self.size = MOST
        self._each = 0.0
        self._before: tuple[int, float] | None = None

    def took(self, count: int, seconds: float) -> None:
        """Note how long an answer about so many took."""
        before, self._before = self._before, (count, seconds)
        if before is not None and before[0] != count:
            each = max(0.0, (seconds - before[1]) / (count - before[0]))
            self._each += (each - self._each) * (_WEIGHT if self._each else 1.0)
        best = min(MOST, max(LEAST, int(BEARABLE / self._each))) if self._each else MOST
        self.size = best if count < best else max(LEAST // 2, int(best * _LESS))
