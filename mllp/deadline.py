"""
One time limit that can be started, put off and stopped, on an injected clock.

Putting it off is cheap: the clock's call stays where it is and looks again when it comes. What
arrives in the same turn of the reactor still puts it off, or stops it.
"""

from collections.abc import Callable

from mllp.contract import Clock, Timer


class Deadline:
    """Calls `expired` once `seconds` after `start` or the last `touch`; 0 seconds is never."""

    __slots__ = ("_clock", "_due", "_expired", "_seconds", "_timer")

    def __init__(self, clock: Clock, seconds: float, expired: Callable[[], object]) -> None:
        self._clock = clock
        self._seconds = seconds
        self._expired = expired
        self._due = 0.0
        self._timer: Timer | None = None

    @property
    def running(self) -> bool:
        """Whether `expired` is still to come."""
        return self._timer is not None

    def start(self) -> None:
        """Begin, or begin anew."""
        if self._seconds <= 0:
            return
        self._due = self._clock.seconds() + self._seconds
        if self._timer is None:
            self._timer = self._clock.callLater(self._seconds, self._look)

    def touch(self) -> None:
        """Put off, if running."""
        if self._timer is not None:
            self._due = self._clock.seconds() + self._seconds

    def put_off(self, seconds: float) -> None:
        """Let it come so much later, if running: that time was not the peer's."""
        self._due += seconds

    def stop(self) -> None:
        """Forget it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        remaining = self._due - self._clock.seconds()
        if remaining > 0:
            self._timer = self._clock.callLater(remaining, self._look)
        else:  # a process that was stopped wakes up to its timers before it reads what has arrived
            self._timer = self._clock.callLater(0, self._look_again)

    def _look_again(self) -> None:
        self._timer = None
        if self._due > self._clock.seconds():
            self._look()
        else:
            self._expired()
