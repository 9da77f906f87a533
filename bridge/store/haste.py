"""
Short work on a file, done in an event loop's own turn.

To hand work to a thread and to hear of it again are two changes of the interpreter, each of which
may cost half a millisecond while others compute: as long as a few rows take on a file. Nobody is
waited for so: where another thread or another process writes, where the disk is slow, and on a
server, Busy says that it is for a thread.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from bridge.store.errors import Busy
from bridge.store.locks import Turns

LITTLE = 25
"""Of messages, orders or launches so many are short work: some two milliseconds."""

_QUICK = 0.002  # seconds that it rests at most, usually: what it computes, a thread would too
_OUTLIER = 2 * _QUICK  # a checkpoint now and then does not make a disk slow
_WEIGHT = 0.2  # of the newest in what is usual
_STALL = 0.2  # seconds that no checkpoint takes: a disk that stands still need not do so twice
_AGAIN = 0.25  # seconds until a slow disk is tried again, at least
_DEAR = 20  # of the loop's time a twentieth, at most, goes into trying

Answer = TypeVar("Answer")


class Haste:
    """Does work here and now, or not at all; for the loop's thread."""

    def __init__(
        self,
        turns: Turns,
        timer: Callable[[], float] = time.monotonic,
        computed: Callable[[], float] = time.thread_time,
    ) -> None:
        """Take whose turns they are, a timer, and what this thread has computed (both seconds)."""
        self._turns = turns
        self._timer = timer
        self._computed = computed
        self._usual = 0.0  # seconds of rest, which are mostly the disk's
        self._slow_until = float("-inf")

    def do(self, work: Callable[[], Answer]) -> Answer:
        """
        Do work that is one transaction, or one after the other; what it raises is raised.

        Raises Busy where it was not done, but might be in a thread.
        """
        began = self._timer()
        if began < self._slow_until:
            raise Busy("too slow for this")
        computed = self._computed()
        with self._turns.at_once():
            answer = work()
        now = self._timer()
        self._note(now - began - (self._computed() - computed), now)
        return answer

    def _note(self, rested: float, now: float) -> None:
        """
        Learn how long it rests; what a thread needs says little, it waits for its turn.

        A disk that was slow has to show that it is quick: the next one that is slow is enough.
        """
        self._usual += (min(rested, _OUTLIER) - self._usual) * _WEIGHT
        if self._usual > _QUICK or rested > _STALL:
            self._usual, self._slow_until = _QUICK, now + max(_AGAIN, rested * _DEAR)
