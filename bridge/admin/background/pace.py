"""
Pauses of work in the background, so that acknowledgments do not wait for it.

While many messages arrive, the pauses are longer.
"""

from dataclasses import dataclass
from math import inf
from typing import Final

SLICE: Final = 0.05
"""Seconds of work between two pauses."""
BUSY_RATE: Final = 50.0
"""Arriving messages a second."""
IDLE_PAUSE: Final = 2.0
"""Seconds until the next look, if there was nothing to do."""


class Arrivals:
    """The rate at which messages arrive, by the newest id at two moments."""

    def __init__(self) -> None:
        self._newest = 0
        self.measured_at = -inf
        """Seconds of a monotonic clock."""
        self.rate = 0.0
        """Messages a second between the last two measurements."""

    @property
    def are_many(self) -> bool:
        """Whether they are as many as `BUSY_RATE`."""
        return self.rate >= BUSY_RATE

    def measure(self, newest: int, at: float) -> None:
        """Note the newest id; an emptied database has the rate 0."""
        seconds = max(at - self.measured_at, 0.001)
        self.rate = max(0, newest - self._newest) / seconds
        self._newest, self.measured_at = newest, at


@dataclass(frozen=True, slots=True)
class Pace:
    """How a kind of work pauses while many messages arrive; pauses are in seconds."""

    factor: float
    """The pause is so many times as long as the work before it."""
    shortest: float
    longest: float

    def pause(self, took: float, arrivals: Arrivals) -> float:
        """Return the pause after work that took `took` seconds; half of the time if few arrive."""
        if arrivals.are_many:
            return min(self.longest, max(self.shortest, took * self.factor))
        return min(IDLE_PAUSE, took)


OF_JOBS: Final = Pace(factor=19, shortest=0, longest=10)
OF_INDEX: Final = Pace(factor=40, shortest=0.1, longest=30)
"""Messages are indexed under constant load, too."""
