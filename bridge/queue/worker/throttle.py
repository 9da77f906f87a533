"""
The throttle: applying stored messages yields to acknowledging new ones.

A process that does both must not let a sender wait for what applying costs: senders have time-outs,
the queue has none. While the process has time left, nothing is throttled. Once it is busy all the
time, the worker applies one small batch at a time while messages arrive, and for a smaller share of
the time the faster they arrive; a share always remains. What can be applied as it comes may take
more of the process than a flood that cannot. Pure: the caller counts and keeps time.
"""

from collections.abc import Callable

BUSY, RUSH = 50.0, 300.0  # arrivals a second
LEAST = {RUSH: 0.1, BUSY: 0.5, 0.0: 1.0}  # of the time is for applying, from such a rate on
FLOOD = 1200.0  # arrivals a second that one process does not apply as they come
FULL = 0.8  # of a processor: above it, applying keeps a flood waiting
KEPT_UP = 0.95  # the same, while arrivals are none: what is applied as it comes is worth as much
LESS, MORE = 0.7, 0.05  # the share is cut to so much at once, and grows by so much
LONGEST = 2.0  # seconds of a pause, whatever the batch took
SMALL = 20  # messages in a batch while the process is loaded
_SAMPLE = 0.1  # seconds
_USUAL = 1.0  # seconds over which it is judged whether arrivals are a flood


class ProcessingThrottle:
    """Watches arrivals and the processor; returns whether to apply less, and how long to wait."""

    def __init__(
        self,
        arrived: Callable[[], int],
        timer: Callable[[], float],
        spent: Callable[[], float],
    ) -> None:
        """Take a count of arrivals, a timer, and what this process has computed (both seconds)."""
        self._arrived = arrived
        self._timer = timer
        self._spent = spent
        self._before = (timer(), arrived(), spent())
        self._share = 1.0
        self._usual = 0.0  # arrivals a second
        self._took = 0.0

    @property
    def is_loaded(self) -> bool:
        """Whether the process is too busy to apply at full speed while messages arrive."""
        return self._look() < 1.0

    @property
    def pause(self) -> float:
        """Seconds to let pass before the next batch, by what the last one took."""
        share = self._look()
        return min(LONGEST, self._took * (1.0 - share) / share)

    def worked(self, seconds: float) -> None:
        """Note how long a batch took."""
        self._took = seconds

    def _look(self) -> float:
        """Give the share of time that is for applying now."""
        now = self._timer()
        at, count, spent = self._before
        if now - at >= _SAMPLE:
            self._before = (now, self._arrived(), self._spent())
            rate = (self._before[1] - count) / (now - at)
            self._usual += (rate - self._usual) * min(1.0, (now - at) / _USUAL)
            bound = FULL if self._usual >= FLOOD else KEPT_UP
            full = (self._before[2] - spent) / (now - at) > bound
            self._share = self._share * LESS if full else self._share + MORE
            least = next(share for rush, share in LEAST.items() if rate >= rush)
            self._share = min(1.0, max(least, self._share))
        return self._share


def unthrottled() -> ProcessingThrottle:
    """Return the throttle of a worker in a process without listeners."""
    return ProcessingThrottle(lambda: 0, lambda: 0.0, lambda: 0.0)
