"""When to look again at a queue where nothing was found.

Who changes a queue announces it on `CHANNEL`; who postpones work knows itself when it is due.
So a look at regular intervals is only for what was lost, and may be rare where announcements are
heard. Pure: the caller keeps time.
"""

import heapq

CHANNEL = "bridge_queue"
"""Announced when something may be claimed that whoever changed it does not claim itself."""

POLL_WITH_NOTIFICATIONS = 2.0
"""Seconds between looks where announcements are heard."""

POLL_WITHOUT_NOTIFICATIONS = 1.0
"""Where they are not: so long waits what a command or another process of the machine has queued."""


class PollTimer:
    """The moments (ms) at which what we postponed falls due, and how long to rest until then."""

    def __init__(self, most: float) -> None:
        """`most` is the longest rest, in seconds."""
        self._most = most
        self._due: list[int] = []

    def add_due_time(self, due: int) -> None:
        """Something falls due then."""
        heapq.heappush(self._due, due)

    def seconds_until_next(self, now: int) -> float:
        """Give the seconds until the next look; what is due by now has been looked at."""
        while self._due and self._due[0] <= now:
            heapq.heappop(self._due)
        wait = (self._due[0] - now) / 1000 if self._due else self._most
        return min(self._most, wait)
