"""
When applying gives way to accepting.

In a process that does both, a rush of arrivals must not wait for what applying costs: senders
have time-outs, the queue has none. So the faster arrivals come, the smaller the share of time
in which they are applied; but a share always remains. Pure: the caller counts and keeps time.
"""

from collections.abc import Callable

RUSH = 3000.0  # arrivals a second from which on batches are small, and one at a time
ACCEPTING = 0.00015  # seconds of the loop that an arrival takes
SPARE = 0.2  # of the time nobody claims, so that arrivals seldom wait
LEAST = 0.1  # of the time is for applying, however fast they come
LONGEST = 2.0  # seconds of a pause, whatever the batch took
SMALL = 20  # messages in a batch during a rush
_SAMPLE = 0.1  # seconds


class Courtesy:
    """Watches a count of arrivals; tells whether there is a rush, and how long to hold back."""

    def __init__(self, arrived: Callable[[], int], timer: Callable[[], float]) -> None:
        self._arrived = arrived
        self._timer = timer
        self._count = arrived()
        self._at = timer()
        self._rate = 0.0
        self._took = 0.0

    @property
    def rushed(self) -> bool:
        """Whether arrivals come so fast that hardly anything else should be done."""
        return self._look() >= RUSH

    @property
    def pause(self) -> float:
        """Seconds to let pass before the next batch, by what the last one took."""
        rate = self._look()
        if not rate:
            return 0.0
        share = max(LEAST, 1.0 - SPARE - rate * ACCEPTING)
        return min(LONGEST, self._took * (1.0 - share) / share)

    def worked(self, seconds: float) -> None:
        """Note how long a batch took."""
        self._took = seconds

    def _look(self) -> float:
        now = self._timer()
        if now - self._at >= _SAMPLE:
            count = self._arrived()
            self._rate = (count - self._count) / (now - self._at)
            self._count, self._at = count, now
        return self._rate


def nobody() -> Courtesy:
    """Give the courtesy of a worker that has nobody to give way to."""
    return Courtesy(lambda: 0, lambda: 0.0)
