"""
When one process is not enough for what it applies.

Python computes on one processor at a time. While much is applied and the process computes nearly
all of the time, a second one applies more and sooner; where little is applied it would only hold
memory. Pure: the caller counts, keeps time and says what was spent.
"""

from collections.abc import Callable

MANY, FEW = 500.0, 200.0  # messages applied a second: from where on, and below which no more
BUSY = 0.75  # of a processor, for a process with many
LONG = 60.0  # seconds of few, after which a second process is not needed any more
_SAMPLE = 0.5  # seconds
_IN_A_ROW = 2  # samples


class Pressure:
    """Watches what is applied, and the processor."""

    def __init__(self, timer: Callable[[], float], spent: Callable[[], float]) -> None:
        """Take a timer, and what this process has computed (both seconds)."""
        self._timer = timer
        self._spent = spent
        self._applied = 0
        self._before = (timer(), spent())
        self._hard = 0
        self._many_at = timer()

    def applied(self, count: int) -> None:
        """Note that so many messages are being applied."""
        self._applied += count
        now = self._timer()
        at, spent = self._before
        if now - at < _SAMPLE:
            return
        self._before = (now, self._spent())
        rate, self._applied = self._applied / (now - at), 0
        busy = (self._before[1] - spent) / (now - at)
        self._hard = self._hard + 1 if rate >= MANY and busy >= BUSY else 0
        if rate >= FEW:
            self._many_at = now

    @property
    def pressed(self) -> bool:
        """Whether a second process would help."""
        return self._hard >= _IN_A_ROW

    @property
    def eased(self) -> bool:
        """Whether none has been needed for long."""
        return self._timer() - self._many_at > LONG
