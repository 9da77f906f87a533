"""
When to try again.

Doubling delays with jitter, so that what failed together does not come back together.
Pure: the caller brings the attempt's number and the dice.
"""

from dataclasses import dataclass
from random import Random

_MOST_DOUBLINGS = 32  # 2**32 seconds outlast any maximum; bigger powers overflow a float


@dataclass(frozen=True, slots=True)
class Policy:
    """`first` seconds, doubled up to `maximum`; `jitter` is the share that is left to chance."""

    first: float = 1.0
    maximum: float = 60.0
    jitter: float = 0.2

    def __post_init__(self) -> None:
        if not (0 < self.first <= self.maximum and 0 <= self.jitter <= 1):
            raise ValueError("a retry policy needs 0 < first <= maximum and 0 <= jitter <= 1")

    def delay(self, attempt: int, random: Random) -> float:
        """
        Give the seconds to wait after attempt number `attempt`, which counts from 1.

        Jitter only ever shortens: `maximum` is a promise to whoever waits.
        """
        doubled = self.first * 2.0 ** min(max(attempt - 1, 0), _MOST_DOUBLINGS)
        return min(doubled, self.maximum) * (1 - self.jitter * random.random())
