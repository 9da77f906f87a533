"""
When a destination that does not answer is left alone, and for how long.

Pure. After a few failures in a row the circuit is open: nothing is sent until a pause is over,
then one message alone tries; each further failure lengthens the pause. A reply of any kind
closes it: somebody is there.
"""

from enum import StrEnum
from random import Random

from bridge.queue.states import Policy


class Circuit(StrEnum):
    """Where a destination's circuit stands."""

    CLOSED = "closed"
    OPEN = "open"
    TRYING = "trying"  # the pause is over: one message may try


class Breaker:
    """The circuit of one destination; times in milliseconds."""

    def __init__(self, policy: Policy, after: int, random: Random) -> None:
        """Open after so many failures in a row; 0: never."""
        self._policy = policy
        self._after = after
        self._random = random
        self._failures = 0
        self._until = 0
        self.replies = 0
        """How many attempts were answered in all."""
        self.refused = 0
        """How many messages in a row were refused."""

    @property
    def open_until(self) -> int | None:
        """When the pause ends; None where the circuit is closed."""
        return self._until or None

    def failed(self, began: int) -> None:
        """Count an attempt, begun then, that nobody answered."""
        self._failures += 1
        beyond = self._failures - self._after
        if self._after and beyond >= 0:
            pause = self._policy.delay(beyond + 1, self._random)
            self._until = began + round(pause * 1000)

    def answered(self, *, refused: bool = False) -> None:
        """Close the circuit; a refusal is an answer too."""
        self.replies += 1
        self.refused = self.refused + 1 if refused else 0
        self._failures = self._until = 0

    def circuit(self, now: int) -> Circuit:
        """Tell where it stands."""
        if not self._until:
            return Circuit.CLOSED
        # No pause is longer: if it seems to be, the clock was set back since.
        self._until = min(self._until, now + round(self._policy.maximum * 1000))
        return Circuit.OPEN if now < self._until else Circuit.TRYING

    def wait(self, now: int) -> float:
        """Give the seconds until something may be sent."""
        return max(0, self._until - now) / 1000
