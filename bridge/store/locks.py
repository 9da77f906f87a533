"""
The lock of writers on SQLite: a fair lock in the process.

SQLite has one writer at a time. `threading.Lock` is not fair: a writer that commits in a loop would
starve all others. No I/O.
"""

import threading
from collections import deque

from bridge.store.errors import Busy
from bridge.store.options import LOCK_TIMEOUT


class WriteLock:
    """
    A lock with one thread at a time, first come, first served.

    Raises Busy after LOCK_TIMEOUT. Not reentrant: acquiring it twice raises RuntimeError.
    """

    def __init__(self, timeout: float = LOCK_TIMEOUT) -> None:
        self.timeout = timeout
        self._mutex = threading.Lock()
        self._owner: int | None = None
        self._waiters: deque[tuple[int, threading.Lock]] = deque()

    def __enter__(self) -> None:
        thread = threading.get_ident()
        with self._mutex:
            if self._owner is None:
                self._owner = thread
                return
            if self._owner == thread:
                raise RuntimeError("this thread is already writing: pass its connection on")
            gate = threading.Lock()
            gate.acquire()
            self._waiters.append((thread, gate))
        if not gate.acquire(timeout=self.timeout) and self._stop_waiting(thread, gate):
            raise Busy("waited for the write lock")

    def __exit__(self, *_: object) -> None:
        """Pass the lock to the thread that has waited longest."""
        with self._mutex:
            if not self._waiters:
                self._owner = None
                return
            self._owner, gate = self._waiters.popleft()
            gate.release()

    def _stop_waiting(self, thread: int, gate: threading.Lock) -> bool:
        """Stop waiting unless the lock was passed on at this moment."""
        with self._mutex:
            if (thread, gate) not in self._waiters:
                return False
            self._waiters.remove((thread, gate))
            return True
