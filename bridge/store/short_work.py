"""
Short work on an SQLite file, on the event loop's own thread.

Plug-in for speed: ADR 0003 has the measured gain. `Database.short_work` is the seam. Without the
plug-in it is None, and a thread of a named pool does the same work.

A thread costs two switches of the interpreter lock, each up to half a millisecond while other
threads compute: as long as a few rows take on a file. The loop never waits: if another thread or
process is writing, or if the disk is slow, `run` raises Busy, and the caller uses a thread.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from bridge.store.errors import Busy
from bridge.store.locks import WriteLock

SHORT = 25
"""Number of messages, orders or launches that count as short work: about two milliseconds."""

_MAX_WAIT = 0.002  # seconds of waiting for the disk, on average
_OUTLIER = 2 * _MAX_WAIT  # the maximum that counts for one run, such as an occasional checkpoint
_WEIGHT = 0.2  # the weight of the newest value in the moving average
_STALL = 0.2  # seconds, longer than any checkpoint; one such wait marks a slow disk
_MIN_RETRY = 0.25  # seconds until a slow disk is tried again, at least
_RETRY_FACTOR = 20  # retries on a slow disk take at most 1/20 of the loop's time

Result = TypeVar("Result")


class ShortWork:
    """Runs work at once or not at all, on the loop's thread."""

    def __init__(
        self,
        write_lock: WriteLock,
        timer: Callable[[], float] = time.monotonic,
        cpu_time: Callable[[], float] = time.thread_time,
    ) -> None:
        """`timer` and `cpu_time` (of this thread) return seconds."""
        self._write_lock = write_lock
        self._timer = timer
        self._cpu_time = cpu_time
        self._average = 0.0  # seconds of waiting, mostly for the disk
        self._slow_until = float("-inf")

    def run(self, work: Callable[[], Result]) -> Result:
        """
        Run work of one transaction, or of several in turn; raise what it raises.

        Raises Busy if the work was not done and a thread should do it.
        """
        began = self._timer()
        if began < self._slow_until:
            raise Busy("the disk is slow")
        cpu_time = self._cpu_time()
        with self._write_lock.hold_without_waiting():
            result = work()
        now = self._timer()
        self._record(now - began - (self._cpu_time() - cpu_time), now)
        return result

    def _record(self, waited: float, now: float) -> None:
        """Record how long work waited. A slow disk counts as slow again after one slow commit."""
        self._average += (min(waited, _OUTLIER) - self._average) * _WEIGHT
        if self._average > _MAX_WAIT or waited > _STALL:
            self._average, self._slow_until = (
                _MAX_WAIT,
                now + max(_MIN_RETRY, waited * _RETRY_FACTOR),
            )
