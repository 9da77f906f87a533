"""
Short work on an SQLite file, done in a turn of the event loop.

A thread costs two changes of the interpreter, each of which may take half a millisecond while other
threads compute: as long as a few rows take on a file. The loop waits for nobody: where another
thread or another process writes, and where the disk is slow, `run` raises Busy, and the caller
gives
the work to a thread.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from bridge.store.errors import Busy
from bridge.store.locks import WriteLock

SHORT = 25
"""So many messages, orders or launches are short work: some two milliseconds."""

_QUICK = 0.002  # seconds of waiting for the disk, as the usual value
_OUTLIER = 2 * _QUICK  # an occasional checkpoint does not make a disk slow
_WEIGHT = 0.2  # of the newest value in the usual one
_STALL = 0.2  # seconds that no checkpoint takes: one such wait is enough
_AGAIN = 0.25  # seconds until a slow disk is tried again, at least
_DEAR = 20  # tries of a slow disk take at most a twentieth of the loop's time

Result = TypeVar("Result")


class ShortWork:
    """Does work at once or not at all; for the loop's thread."""

    def __init__(
        self,
        turns: WriteLock,
        timer: Callable[[], float] = time.monotonic,
        computed: Callable[[], float] = time.thread_time,
    ) -> None:
        """`timer` and `computed` (the CPU time of this thread) are in seconds."""
        self._turns = turns
        self._timer = timer
        self._computed = computed
        self._usual = 0.0  # seconds of waiting, mostly for the disk
        self._slow_until = float("-inf")

    def run(self, work: Callable[[], Result]) -> Result:
        """
        Do work of one transaction, or of several in turn; raise what it raises.

        Raises Busy where the work was not done, and a thread might do it.
        """
        began = self._timer()
        if began < self._slow_until:
            raise Busy("too slow for this")
        computed = self._computed()
        with self._turns.hold_without_waiting():
            result = work()
        now = self._timer()
        self._note(now - began - (self._computed() - computed), now)
        return result

    def _note(self, waited: float, now: float) -> None:
        """
        Learn how long such work waits. What a thread waits says little: it waits for its turn.

        A disk that was slow is slow again at the first slow commit.
        """
        self._usual += (min(waited, _OUTLIER) - self._usual) * _WEIGHT
        if self._usual > _QUICK or waited > _STALL:
            self._usual, self._slow_until = _QUICK, now + max(_AGAIN, waited * _DEAR)
