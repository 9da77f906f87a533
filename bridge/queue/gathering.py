"""
How a group commit is written: at once, or with company.

Where a commit is quick, whoever has arrivals writes them on the spot: handing them to a thread
costs more than the commit. Where it is slow, the thread does it, and senders that wait for each
answer would split into two halves that wait for each other's commit; waiting a little for the
other half makes one big batch of two small ones. Pure: the caller measures and counts.
"""

from dataclasses import dataclass

_SLOW = 0.001  # seconds a commit takes before gathering pays (measured: 79 % at 2 ms)
_EACH = 0.000025  # seconds more for each arrival in it: they are why it takes longer
_SHARE = 0.4  # of the usual commit time is what a batch may wait for company
_WEIGHT = 0.2  # of the newest commit in the average
_OUTLIER = 4 * _SLOW  # a checkpoint now and then does not make a disk slow


@dataclass(slots=True)
class Gathering:
    """Watches commits, and tells how many arrivals the next is worth waiting for."""

    usual: float = 0.0
    population: int = 0
    _steady: float = 0.0

    def committed(self, seconds: float, size: int, waiting: int) -> None:
        """
        Note a commit of `size` arrivals that took `seconds`, during which `waiting` others came.

        Both together are who is likely to have something in the next round.
        """
        weight = _WEIGHT if self.usual else 1.0
        self.usual += (seconds - self.usual) * weight
        self._steady += (min(seconds, _OUTLIER) - self._steady) * weight
        self.population = size + waiting

    @property
    def at_once(self) -> bool:
        """
        Whether a commit is known to be so quick that nobody need be asked to do it.

        A thread's commits look slower than they are: it waits for its turn with the interpreter.
        """
        return 0.0 < self._steady <= _SLOW + _EACH * self.population

    def patience(self, waiting: int) -> float:
        """Give the seconds that are worth waiting when `waiting` arrivals are there."""
        if self.usual <= _SLOW or waiting >= self.population:
            return 0.0
        return self.usual * _SHARE
