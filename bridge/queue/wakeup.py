"""
When to poll a queue that was empty.

A change of a queue is announced on `CHANNEL`, and the process that postpones work knows when it is
due. Polling finds only work whose announcement was lost, so it can be rare where notifications
arrive. Pure: the caller passes the time.
"""

import heapq

CHANNEL = "bridge_queue"
"""Notification channel of the queues: something may be ready to claim."""

POLL_WITH_NOTIFICATIONS = 5.0
"""Seconds between polls where notifications arrive."""

POLL_WITHOUT_NOTIFICATIONS = 1.0
"""Seconds between polls on SQLite: the delay of work that another process queued."""

CLOCK_TOLERANCE_MS = 300_000
"""Due times that a wrong clock put this much too far ahead are corrected."""


class PollTimer:
    """Due times (ms) of postponed work, and the time until the next poll."""

    def __init__(self, longest: float) -> None:
        """`longest` is the longest time between polls, in seconds."""
        self._longest = longest
        self._due: list[int] = []

    def add_due_time(self, due: int) -> None:
        """Add the time at which postponed work becomes due."""
        heapq.heappush(self._due, due)

    def seconds_until_next(self, now: int) -> float:
        """Return the seconds until the next poll. Due times up to `now` are removed."""
        while self._due and self._due[0] <= now:
            heapq.heappop(self._due)
        wait = (self._due[0] - now) / 1000 if self._due else self._longest
        return min(self._longest, wait)
