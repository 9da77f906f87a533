"""
The lock of writers on SQLite: a fair lock in the process.

SQLite has one writer at a time. `threading.Lock` is not fair: a writer that commits in a loop would
starve all others. An event loop must not wait: it takes the lock only if it is free, and its writes
do not wait for other processes. No I/O.
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
    A lock with one thread at a time, first come, first served.

    Urgent writers, for which a sender waits, come first. After an urgent writer the others get a
    turn, so that nobody starves. Not reentrant: acquiring it twice raises RuntimeError.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._owner: int | None = None
        self._is_urgent = False  # whether the owner is urgent
        self._urgent_waiters: _Waiters = deque()
        self._waiters: _Waiters = deque()

    def acquire(self, timeout: float, *, urgent: bool = False) -> bool:
        """Wait at most `timeout` seconds for the lock; return whether it was acquired."""
        thread = threading.get_ident()
        with self._mutex:
            if self._owner is None:
                self._owner, self._is_urgent = thread, urgent
                return True
            if self._owner == thread:
                raise RuntimeError("this thread is already writing: pass its connection on")
            gate = threading.Lock()
            gate.acquire()
            queue = self._urgent_waiters if urgent else self._waiters
            queue.append((thread, gate))
        return gate.acquire(timeout=timeout) or self._cancel_wait(queue, thread, gate)

    def release(self) -> None:
        """Pass the lock to the thread that has waited longest, to urgent ones first."""
        with self._mutex:
            urgent = bool(self._urgent_waiters) and not (self._is_urgent and self._waiters)
            queue = self._urgent_waiters if urgent else self._waiters
            if not queue:
                self._owner = None
                return
            self._is_urgent = urgent
            self._owner, gate = queue.popleft()
            gate.release()

    def _cancel_wait(self, queue: "_Waiters", thread: int, gate: threading.Lock) -> bool:
        """Stop waiting unless the lock was passed on at this moment."""
        with self._mutex:
            if (thread, gate) not in queue:
                return True
            queue.remove((thread, gate))
            return False


_Waiters = deque[tuple[int, threading.Lock]]
_locks_by_file: WeakValueDictionary[str, FairLock] = WeakValueDictionary()
_registry_mutex = threading.Lock()


def lock_of_file(file: Path) -> FairLock:
    """Return the lock of a file in this process; all Database objects of the file share it."""
    with _registry_mutex:
        return _locks_by_file.setdefault(str(file.resolve()), FairLock())


_TIMEOUT = "waited for the write lock"
_NOT_FREE = "the write lock is not free"


class WriteLock:
    """The lock of one database's writers in this process; `fair_lock` is None on PostgreSQL."""

    def __init__(self, fair_lock: FairLock | None, timeout: float) -> None:
        self.fair_lock = fair_lock
        self.timeout = timeout
        self._nonblocking_thread: int | None = None  # the thread that must not wait

    @contextmanager
    def hold(self, *, urgent: bool = False) -> Iterator[None]:
        """Hold the lock; `urgent` as in `FairLock`. Raises Busy."""
        if self.fair_lock is None or self.is_nonblocking:  # in `hold_without_waiting`
            yield
            return
        if not self.fair_lock.acquire(self.timeout, urgent=urgent):
            raise Busy(_TIMEOUT)
        try:
            yield
        finally:
            self.fair_lock.release()

    @contextmanager
    def hold_without_waiting(self) -> Iterator[None]:
        """Hold the lock for everything that this thread writes. Raises Busy instead of waiting."""
        if self.fair_lock is None or not self.fair_lock.acquire(0.0):
            raise Busy(_NOT_FREE)
        self._nonblocking_thread = threading.get_ident()
        try:
            yield
        finally:
            self._nonblocking_thread = None
            self.fair_lock.release()

    @property
    def is_nonblocking(self) -> bool:
        """Whether this thread holds the lock and must not wait."""
        return (
            self._nonblocking_thread is not None
            and self._nonblocking_thread == threading.get_ident()
        )
