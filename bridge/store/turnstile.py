"""
A lock that lets waiting threads through in the order they came.

SQLite has one writer at a time and `threading.Lock` may hand itself to the same thread for
ever; a writer that commits in a loop would starve all others. No I/O, no database.
"""

import threading
from collections import deque
from pathlib import Path
from weakref import WeakValueDictionary


class Turnstile:
    """One thread at a time, first come first served. Not re-entrant: that is a defect, and told."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._owner: int | None = None
        self._waiting: deque[tuple[int, threading.Lock]] = deque()

    def acquire(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds for the turn; tell whether it came."""
        me = threading.get_ident()
        with self._mutex:
            if self._owner is None:
                self._owner = me
                return True
            if self._owner == me:
                raise RuntimeError("this thread is already writing: pass its connection on")
            gate = threading.Lock()
            gate.acquire()
            self._waiting.append((me, gate))
        return gate.acquire(timeout=timeout) or self._leave(me, gate)

    def release(self) -> None:
        """Hand the turn to whoever has waited longest."""
        with self._mutex:
            if not self._waiting:
                self._owner = None
                return
            self._owner, gate = self._waiting.popleft()
            gate.release()

    def _leave(self, me: int, gate: threading.Lock) -> bool:
        """Stop waiting, unless the turn came in this very moment."""
        with self._mutex:
            if (me, gate) not in self._waiting:
                return True
            self._waiting.remove((me, gate))
            return False


_turnstiles: WeakValueDictionary[str, Turnstile] = WeakValueDictionary()
_guard = threading.Lock()


def turnstile_of(file: Path) -> Turnstile:
    """Give the one of a file in this process, however many Database objects point to it."""
    with _guard:
        return _turnstiles.setdefault(str(file.resolve()), Turnstile())
