"""
Whose turn it is to write: SQLite's writers take turns, a server's need none.

An event loop may not be kept waiting: it asks for its turn `at_once`, and what it writes within
waits for no other process either.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from bridge.store.errors import Busy
from bridge.store.turnstile import Turnstile

_WAITED = "waited for the writer's turn"
_TAKEN = "another has the writer's turn"


class Turns:
    """The turns of one database's writers in this process; `turnstile` is None on a server."""

    def __init__(self, turnstile: Turnstile | None, patience: float) -> None:
        self.turnstile = turnstile
        self.patience = patience
        self._hasty: int | None = None  # the thread that has the turn at once

    @contextmanager
    def turn(self, *, urgent: bool = False) -> Iterator[None]:
        """Have the turn, unless this thread has it already; see `Turnstile`. Raises Busy."""
        if self.turnstile is None or self.is_hasty:
            yield
            return
        if not self.turnstile.acquire(self.patience, urgent=urgent):
            raise Busy(_WAITED)
        try:
            yield
        finally:
            self.turnstile.release()

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Have the turn for all that this thread writes within. Raises Busy rather than wait."""
        if self.turnstile is None or not self.turnstile.acquire(0.0):
            raise Busy(_TAKEN)
        self._hasty = threading.get_ident()
        try:
            yield
        finally:
            self._hasty = None
            self.turnstile.release()

    @property
    def is_hasty(self) -> bool:
        """Whether this thread has the turn at once, and may wait for nobody."""
        return self._hasty is not None and self._hasty == threading.get_ident()
