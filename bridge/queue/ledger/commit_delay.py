"""
Plug-in for speed: a group commit waits a little for more arrivals where a commit is slow.

ADR 0007 has the measured gain; `database.commit_delay` is the setting. Senders that wait for
each answer split into two halves, and each half waits for the other one's commit. A short wait for
the other half makes one big batch of two small ones. Pure: the ledger measures, counts and waits.
"""

from dataclasses import dataclass

_SLOW = 0.001  # seconds that a commit takes before a wait pays
_SHARE = 0.4  # of the usual commit time is what a batch waits at most
_WEIGHT = 0.2  # of the newest commit in the usual time


@dataclass(slots=True)
class CommitDelay:
    """Watches commits; returns how long to wait for how many arrivals."""

    usual: float = 0.0
    expected: int = 0
    """Arrivals of the last batch, and those that came while it was written."""

    def committed(self, seconds: float, size: int, waiting: int) -> None:
        """Note a commit of `size` arrivals, during which `waiting` others came."""
        self.usual += (seconds - self.usual) * (_WEIGHT if self.usual else 1.0)
        self.expected = size + waiting

    def seconds(self, waiting: int) -> float:
        """Return the seconds to wait at most when `waiting` arrivals are there."""
        if self.usual <= _SLOW or waiting >= self.expected:
            return 0.0
        return self.usual * _SHARE
