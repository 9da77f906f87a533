"""
Group-commit delay: wait a little for more arrivals where a commit is slow.

ADR 0007 has the measured gain; `database.commit_delay` is the setting. Senders that wait for each
acknowledgment split into two halves, and each half waits for the other one's commit. A short wait
merges both halves into one batch. Pure: the ledger measures, counts and waits.
"""

from dataclasses import dataclass

_SLOW = 0.001  # seconds; faster commits are not delayed
_SHARE = 0.4  # longest wait, as a share of the average commit time
_WEIGHT = 0.2  # weight of the newest commit in the moving average


@dataclass(slots=True)
class CommitDelay:
    """Observes commits; returns how long to wait, and for how many arrivals."""

    average: float = 0.0
    expected: int = 0
    """Arrivals of the last batch, and those that came while it was written."""

    def committed(self, seconds: float, size: int, waiting: int) -> None:
        """Record a commit of `size` arrivals during which `waiting` others came."""
        self.average += (seconds - self.average) * (_WEIGHT if self.average else 1.0)
        self.expected = size + waiting

    def seconds(self, waiting: int) -> float:
        """Return the maximum wait in seconds while `waiting` arrivals wait."""
        if self.average <= _SLOW or waiting >= self.expected:
            return 0.0
        return self.average * _SHARE
