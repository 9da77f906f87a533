"""
Few arrivals, kept on a server by the loop itself: no thread is woken, and none wakes the loop.

Only what is all new, and nothing went wrong with, is answered here. All else the ledger's thread
does, as if nobody had asked: what was stored all the same is known there as a copy.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial

from bridge.executors import Threads
from bridge.queue import arrival_statements as sql
from bridge.queue.hot_path import columns_of
from bridge.queue.inserts import receipts_of_new, rows_of_new
from bridge.queue.keeper import Answer, Group, answers_of
from bridge.store.asking import Asking
from bridge.store.database import Database
from bridge.store.errors import StoreError

_MOST = 2  # arrivals and senders up to which it pays: a thread gathers more meanwhile
_LONGEST = 2.0  # seconds until the thread tries: whoever holds a lock, or no answer, costs no more
_AGAIN = 5.0  # seconds from one connection to the next
_SOON = 0.001  # seconds: as long as a server takes to answer

Told = Callable[[Sequence[Answer] | None, float], object]
"""Takes the answers, None where the thread has to find them, and the seconds it took."""


class Asked:
    """Keeps groups one after the other. Does nothing on SQLite. For the loop's thread."""

    def __init__(self, database: Database, timer: Callable[[], float]) -> None:
        self._database = database
        self._timer = timer
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asking: Asking | None = None
        self._opening: asyncio.Task[None] | None = None
        self._next_try = 0.0 if database.dialect == "postgresql" else float("inf")
        self._ended = False
        self.busy = False
        """Whether somebody waits for an answer."""

    @property
    def is_ready(self) -> bool:
        """Whether there is a server to ask."""
        is_open = self._asking is not None and self._asking.is_open and not self._ended
        return is_open and self._database.synchrony.is_met

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take groups from now on."""
        self._loop = loop
        self._ended = False

    def thread_kept(self, answers: Sequence[Answer]) -> None:
        """Connect, if the thread's work was ours and the server takes some."""
        if self.is_ready or self._ended or len(answers) > _MOST or self._opening is not None:
            return
        failed = any(isinstance(each, BaseException) for each in answers)
        if self._loop is not None and not failed and time.monotonic() >= self._next_try:
            self._opening = self._loop.create_task(self._open(self._loop))

    def suits(self, groups: Sequence[Group], population: int) -> bool:
        """Whether to ask for these, of so many senders, now."""
        if not self.is_ready or self.busy or max(len(groups), population) > _MOST:
            return False
        arrivals = [arrival for group in groups for arrival in group.arrivals]
        return len(arrivals) == len({arrival.identity for arrival in arrivals}) <= _MOST

    def keep(self, groups: Sequence[Group], told: Told) -> None:
        """Keep groups that suit; `told` is called on the loop, mostly later than this call."""
        arrivals = [arrival for group in groups for arrival in group.arrivals]
        try:
            values = [each.data for each in columns_of(rows_of_new(arrivals))]
        except Exception:  # noqa: BLE001  # one of them is no row: the thread finds out which
            told(None, 0.0)
            return
        loop, asking = self._loop, self._asking
        assert loop is not None and asking is not None  # noqa: S101, PT018  # it is ready
        began = self._timer()
        slow = loop.call_later(_LONGEST, asking.close)

        def heard(found: Sequence[bytes] | None) -> None:
            slow.cancel()
            self.busy = False
            took = self._timer() - began
            if found is None:
                self._next_try = time.monotonic() + _AGAIN
            if not found:  # or one of them is known
                told(None, took)
                return
            receipts = receipts_of_new(arrivals, [int.from_bytes(each) for each in found])
            told(answers_of(groups, receipts), took)

        self.busy = True
        asking.ask(values, heard)

    async def end(self) -> None:
        """Take no more, and let the connection go when nobody waits for an answer."""
        self._ended = True
        if self._opening is not None:
            await self._opening
        while self.busy:  # noqa: ASYNC110  # the answer rings no bell
            await asyncio.sleep(_SOON)
        if self._asking is not None:
            self._asking.close()
            self._asking = None

    async def _open(self, loop: asyncio.AbstractEventLoop) -> None:
        self._next_try = time.monotonic() + _AGAIN
        try:
            connect = partial(self._database.asking, sql.POSTGRES_INSERT_NEW)
            self._asking = await Threads.INTAKE.run(connect)
            self._asking.watch(loop)
        except StoreError:
            pass
        finally:
            self._opening = None
