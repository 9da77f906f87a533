"""Locks of writers: a fair lock, and the turn to write.

SQLite has one writer at a time and `threading.Lock` may hand itself to the same thread for
ever; a writer that commits in a loop would starve all others. No I/O, no database.

An event loop may not be kept waiting: it asks for its turn `hold_without_waiting`, and what it
writes within
waits for no other process either.
"""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from weakref import WeakValueDictionary

from bridge.store.errors import Busy


class FairLock:
    """
    One thread at a time, first come first served.

    An urgent writer, for whom a sender waits, goes before the others. After an urgent turn the
    others have one, so that nobody waits for ever. Not re-entrant: that is a defect, and raised.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._owner: int | None = None
        self._was_urgent = False  # the turn of the owner
        self._urgent: _Waiting = deque()
        self._waiting: _Waiting = deque()

    def acquire(self, timeout: float, *, urgent: bool = False) -> bool:
        """Wait at most `timeout` seconds for the turn; return whether it came."""
        me = threading.get_ident()
        with self._mutex:
            if self._owner is None:
                self._owner, self._was_urgent = me, urgent
                return True
            if self._owner == me:
                raise RuntimeError("this thread is already writing: pass its connection on")
            gate = threading.Lock()
            gate.acquire()
            queue = self._urgent if urgent else self._waiting
            queue.append((me, gate))
        return gate.acquire(timeout=timeout) or self._leave(queue, me, gate)

    def release(self) -> None:
        """Hand the turn to the writer that has waited longest, to an urgent one first."""
        with self._mutex:
            urgent = bool(self._urgent) and not (self._was_urgent and self._waiting)
            queue = self._urgent if urgent else self._waiting
            if not queue:
                self._owner = None
                return
            self._was_urgent = urgent
            self._owner, gate = queue.popleft()
            gate.release()

    def _leave(self, queue: "_Waiting", me: int, gate: threading.Lock) -> bool:
        """Stop waiting, unless the turn came in this very moment."""
        with self._mutex:
            if (me, gate) not in queue:
                return True
            queue.remove((me, gate))
            return False


_Waiting = deque[tuple[int, threading.Lock]]
_turnstiles: WeakValueDictionary[str, FairLock] = WeakValueDictionary()
_guard = threading.Lock()


def lock_of_file(file: Path) -> FairLock:
    """Give the one of a file in this process, however many Database objects point to it."""
    with _guard:
        return _turnstiles.setdefault(str(file.resolve()), FairLock())


_WAITED = "waited for the writer's turn"
_TAKEN = "another has the writer's turn"


class WriteLock:
    """The turns of one database's writers in this process; `fair_lock` is None on a server."""

    def __init__(self, turnstile: FairLock | None, patience: float) -> None:
        self.fair_lock = turnstile
        self.timeout = patience
        self._hasty: int | None = None  # the thread that has the turn at once

    @contextmanager
    def hold(self, *, urgent: bool = False) -> Iterator[None]:
        """Have the turn, unless this thread has it already; see `FairLock`. Raises Busy."""
        if self.fair_lock is None or self.is_nonblocking:
            yield
            return
        if not self.fair_lock.acquire(self.timeout, urgent=urgent):
            raise Busy(_WAITED)
        try:
            yield
        finally:
            self.fair_lock.release()

    @contextmanager
    def hold_without_waiting(self) -> Iterator[None]:
        """Have the turn for all that this thread writes within. Raises Busy rather than wait."""
        if self.fair_lock is None or not self.fair_lock.acquire(0.0):
            raise Busy(_TAKEN)
        self._hasty = threading.get_ident()
        try:
            yield
        finally:
            self._hasty = None
            self.fair_lock.release()

    @property
    def is_nonblocking(self) -> bool:
        """Whether this thread has the turn at once, and may wait for nobody."""
        return self._hasty is not None and self._hasty == threading.get_ident()
