"""
How long a group commit waits for company.

Senders that wait for each answer split into two halves that wait for each other's commit;
waiting a little for the other half makes one big batch of two small ones. Worth it only where
a commit is slow: on a fast disk nobody waits. Pure: the caller measures and counts.
"""

from dataclasses import dataclass

_SLOW = 0.001  # seconds a commit takes before gathering pays (measured: 79 % at 2 ms)
_SHARE = 0.4  # of the usual commit time is what a batch may wait for company
_WEIGHT = 0.2  # of the newest commit in the average


@dataclass(slots=True)
class Gathering:
    """Watches commits, and tells how many arrivals the next is worth waiting for."""

    usual: float = 0.0
    population: int = 0

    def committed(self, seconds: float, size: int, waiting: int) -> None:
        """
        Note a commit of `size` arrivals that took `seconds`, during which `waiting` others came.

        Both together are who is likely to have something in the next round.
        """
        self.usual += (seconds - self.usual) * (_WEIGHT if self.usual else 1.0)
        self.population = size + waiting

    def patience(self, waiting: int) -> float:
        """Give the seconds that are worth waiting when `waiting` arrivals are there."""
        if self.usual <= _SLOW or waiting >= self.population:
            return 0.0
        return self.usual * _SHARE
