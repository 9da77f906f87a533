"""
Throttle: processing of stored messages yields to acknowledgment of new ones.

Senders have time-outs; the queue has none. While messages arrive, the worker applies one small
batch at a time: an acknowledgment waits for the interpreter and for the database's write lock no
longer than a small batch takes. When the process is saturated as well, the worker pauses between
batches: the faster messages arrive, the smaller is its share of the time. A minimum share always
remains.

Pure: the caller passes counters and clocks.
"""

from collections.abc import Callable

BUSY_RATE, RUSH_RATE = 50.0, 300.0  # arrivals per second
MINIMUM_SHARE = {RUSH_RATE: 0.1, BUSY_RATE: 0.5, 0.0: 1.0}  # of processing, by arrival rate
FLOOD_RATE = 1200.0  # arrivals per second that exceed what one process can apply
FLOOD_CPU_LIMIT = 0.8  # CPU share above which processing is throttled during a flood
CPU_LIMIT = 0.95  # CPU share above which it is throttled otherwise
SHARE_FACTOR, SHARE_INCREASE = 0.7, 0.05  # multiplicative decrease, additive increase
LONGEST_PAUSE = 2.0  # seconds
STEADY_RATE = 20.0  # arrivals per second, on average, from which batches are small
QUIET_SECONDS = 0.25  # without arrivals, until batches are large again
SMALL_BATCH = 10  # messages of a batch while messages arrive
_SAMPLE = 0.1  # seconds
_AVERAGE = 1.0  # seconds of the moving average of the arrival rate


class ProcessingThrottle:
    """Observes arrivals and CPU time; returns whether to apply less, and how long to pause."""

    def __init__(
        self,
        arrived: Callable[[], int],
        timer: Callable[[], float],
        spent: Callable[[], float],
    ) -> None:
        """`arrived` counts arrivals; `timer` and `spent` (CPU time) return seconds."""
        self._arrived = arrived
        self._timer = timer
        self._spent = spent
        self._before = (timer(), arrived(), spent())
        self._arrived_at = float("-inf")
        self._share = 1.0
        self._average_rate = 0.0  # arrivals a second
        self._last_seconds = 0.0

    @property
    def is_limited(self) -> bool:
        """Whether to apply one small batch at a time."""
        share = self._current_share()
        arriving = self._before[0] - self._arrived_at < QUIET_SECONDS
        return share < 1.0 or (arriving and self._average_rate >= STEADY_RATE)

    @property
    def pause(self) -> float:
        """Seconds to pause before the next batch, derived from the duration of the last one."""
        share = self._current_share()
        return min(LONGEST_PAUSE, self._last_seconds * (1.0 - share) / share)

    def worked(self, seconds: float) -> None:
        """Record the duration of a batch."""
        self._last_seconds = seconds

    def _current_share(self) -> float:
        now = self._timer()
        at, count, spent = self._before
        if now - at >= _SAMPLE:
            self._before = (now, self._arrived(), self._spent())
            rate = (self._before[1] - count) / (now - at)
            if rate:
                self._arrived_at = now
            self._average_rate += (rate - self._average_rate) * min(1.0, (now - at) / _AVERAGE)
            cpu_limit = FLOOD_CPU_LIMIT if self._average_rate >= FLOOD_RATE else CPU_LIMIT
            is_saturated = (self._before[2] - spent) / (now - at) > cpu_limit
            self._share = (
                self._share * SHARE_FACTOR if is_saturated else self._share + SHARE_INCREASE
            )
            least = next(share for arrivals, share in MINIMUM_SHARE.items() if rate >= arrivals)
            self._share = min(1.0, max(least, self._share))
        return self._share


def unthrottled() -> ProcessingThrottle:
    """Return the throttle of a process without listeners: it never pauses."""
    return ProcessingThrottle(lambda: 0, lambda: 0.0, lambda: 0.0)
