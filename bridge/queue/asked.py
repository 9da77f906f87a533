"""
Few arrivals, kept on a server by the loop itself: no thread is woken, and none wakes the loop.

Only what is all new, and nothing else went wrong with, is answered here. All else the ledger's
thread does, as if nobody had asked: what was stored all the same is known there as a copy.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

from bridge.queue import arrival_statements as sql
from bridge.queue.admission import NEW
from bridge.queue.hot_path import KINDS
from bridge.queue.inserts import receipt_of, row_of
from bridge.queue.keeper import Answer, Group
from bridge.store.arrays import packed
from bridge.store.asking import Asking
from bridge.store.database import Database
from bridge.store.errors import StoreError

MOST = 2
"""Arrivals, and senders of the last round, up to which it pays: a thread gathers more meanwhile."""

_SOON = 0.001  # seconds: as long as a server takes to answer
_AGAIN = 5.0  # seconds until the next try to connect

Told = Callable[[Sequence[Answer] | None, float], object]
"""Takes the answers, None where the thread has to find them, and the seconds it took."""


class Asked:
    """Keeps groups one after the other. Does nothing on SQLite."""

    def __init__(self, database: Database, timer: Callable[[], float]) -> None:
        self._database = database
        self._timer = timer
        self._asking: Asking | None = None
        self._made: Asking | None = None  # by the thread; the loop takes it over
        self._next_try = 0.0 if database.dialect == "postgresql" else float("inf")
        self._ended = False
        self.busy = False
        """Whether somebody waits for an answer."""

    @property
    def is_ready(self) -> bool:
        """Whether there is a server to ask."""
        return self._asking is not None and self._asking.is_open and not self._ended

    def prepare(self, loop: asyncio.AbstractEventLoop) -> None:
        """Connect, if that is wanted. For the ledger's thread; never raises."""
        if self.is_ready or self._ended or time.monotonic() < self._next_try:
            return
        self._next_try = time.monotonic() + _AGAIN
        try:
            self._made = self._database.asking(sql.POSTGRES_INSERT_NEW)
            loop.call_soon_threadsafe(self._take, loop)
        except StoreError:
            return
        except RuntimeError:  # the loop is closed: so are we, soon
            return

    def suits(self, groups: Sequence[Group], population: int) -> bool:
        """Whether to ask for these, of so many senders, now."""
        if not self.is_ready or self.busy or max(len(groups), population) > MOST:
            return False
        arrivals = [arrival for group in groups for arrival in group.arrivals]
        return len(arrivals) == len({arrival.identity for arrival in arrivals}) <= MOST

    def keep(self, groups: Sequence[Group], told: Told) -> None:
        """Keep groups that suit; `told` is called later, on the loop."""
        arrivals = [arrival for group in groups for arrival in group.arrivals]
        rows = [row_of(arrival, NEW) for arrival in arrivals]
        began = self._timer()

        def heard(found: Sequence[bytes] | Exception) -> None:
            self.busy = False
            took = self._timer() - began
            if isinstance(found, Exception) or len(found) != len(arrivals):
                told(None, took)
                return
            ids = (int.from_bytes(each) for each in found)
            receipts = (receipt_of(each, NEW, next(ids)) for each in arrivals)
            told([[next(receipts) for _ in group.arrivals] for group in groups], took)

        assert self._asking is not None  # noqa: S101  # it is ready
        self.busy = True
        self._asking.ask([each.data for each in packed(KINDS, rows)], heard)

    def start(self) -> None:
        """Take groups from now on."""
        self._ended = False

    async def end(self) -> None:
        """Take no more; return when nobody waits for an answer."""
        self._ended = True
        while self.busy:  # noqa: ASYNC110  # the answer rings no bell
            await asyncio.sleep(_SOON)

    def close(self) -> None:
        """Let the connections go, after `end`; nobody may connect any more."""
        for each in (self._asking, self._made):
            if each is not None:
                each.close()
        self._asking = self._made = None

    def _take(self, loop: asyncio.AbstractEventLoop) -> None:
        asking, self._made = self._made, None
        if asking is None:  # closed meanwhile
            return
        if self._ended:
            asking.close()
            return
        asking.watch(loop)
        self._asking = asking
