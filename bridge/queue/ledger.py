"""
Keep what arrives before anybody is told that it was kept.

All arrivals that wait share one transaction and one flush to disk. The writer thread does that.
On a local and quick disk the event loop does it in its own turn, which saves two changes of thread
for each commit (ADR 0003). This module does not know what a message means.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import structlog

from bridge.executors import Threads
from bridge.observability.redaction import describe, where
from bridge.queue.arrivals import Arrival, Receipt
from bridge.queue.errors import LedgerClosed
from bridge.queue.gathering import Gathering
from bridge.queue.keeper import Answer, Group, Keeper
from bridge.queue.noting import Notes
from bridge.store.database import Database
from bridge.workers.offload import LARGE

_MOST_ARRIVALS = 1000
_MOST_BYTES = 32 * 2**20
_MOST_HERE = 400  # arrivals that are kept in the loop's own turn: some 5 ms


_log = structlog.get_logger("ledger")


def _nobody() -> None:
    """Tell nobody."""


class Ledger:
    """
    The durable inbox's front door. Its methods belong on the event loop's thread.

    `accept` and `accept_many` give futures that succeed only after the commit, and fail with
    StoreUnavailable when nothing could be kept, with StoreError when the arrival itself cannot
    be, and with LedgerClosed after `stop`.
    """

    def __init__(
        self,
        database: Database,
        *,
        timer: Callable[[], float] = time.perf_counter,
        together: AbstractContextManager[object] | None = None,
    ) -> None:
        """Keep in a database; whoever waits for one commit is told within `together`."""
        self._together = nullcontext() if together is None else together
        self._keeper = Keeper(database, timer=timer)
        self._large_keeper = Keeper(database, timer=timer)
        self._large = ThreadPoolExecutor(1, "ledger, large")
        self._timer = timer
        self._changed = threading.Condition()
        self._turn: list[Group] = []  # the loop's own, until it hands them over
        self._waiting: deque[Group] = deque()
        self._wanted = 1  # so many must wait before the thread is woken
        self.notes = Notes(database)
        self._announce: Callable[[], object] = _nobody
        self.arrived = 0  # in all, for whoever wants to know how fast they come
        self._gathering = Gathering()
        self._put_off = False  # until the thread has answered for what it has in hand
        self._seen = 0  # of this turn's, when last looked
        self._handed = 0  # to the thread, and not answered yet
        self._closing = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def announce(self, to: Callable[[], object]) -> None:
        """Call `to` on the loop's thread after each batch, once its arrivals are answered for."""
        self._announce = to

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to write; futures will belong to `loop`."""
        self._loop = loop
        self._closing = False
        self._large = ThreadPoolExecutor(1, "ledger, large")
        self._thread = threading.Thread(target=self._write_on, name="ledger", daemon=True)
        self._thread.start()
        self.notes.start()

    async def stop(self) -> None:
        """Write what still waits, then end. What comes later is refused."""
        self._hand_over()
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread is not None:
            await Threads.INTAKE.run(self._thread.join)
            await Threads.INTAKE.run(self.notes.stop)
        await Threads.INTAKE.run(self._large.shutdown)
        self._large_keeper.close()
        self._keeper.close()

    def accept(self, arrival: Arrival) -> asyncio.Future[Receipt]:
        """Keep one message."""
        future: asyncio.Future[Receipt] = self._new_future()
        self.submit(arrival, lambda answer: _resolve(future, answer))
        return future

    def submit(self, arrival: Arrival, settle: Callable[[Receipt | BaseException], object]) -> None:
        """
        Keep one message, as `accept` does, and tell what came of it without a future.

        `settle` is called once, on the loop's thread and soon after the commit; within this
        call after `stop`. What it raises is logged: others of its batch are told as ever.
        """
        if self._loop is None:
            raise LedgerClosed

        def settle_one(answer: Answer) -> None:
            settle(answer if isinstance(answer, BaseException) else answer[0])

        self._submit(Group((arrival,), settle_one, len(arrival.payload)))

    def accept_many(self, arrivals: Sequence[Arrival]) -> asyncio.Future[Sequence[Receipt]]:
        """Keep all messages of a batch, or none."""
        future: asyncio.Future[Sequence[Receipt]] = self._new_future()
        size = sum(len(arrival.payload) for arrival in arrivals)
        self._submit(Group(arrivals, lambda answer: _resolve(future, answer), size))
        return future

    def acknowledged(self, message_id: int) -> None:
        """Note that the ACK was written out; kept within a second or so, many in one statement."""
        self.notes.add(message_id)

    def _new_future(self) -> asyncio.Future[Any]:
        if self._loop is None:
            raise LedgerClosed
        return self._loop.create_future()

    def _submit(self, group: Group) -> None:
        if self._closing or self._loop is None:
            group.settle(LedgerClosed())
            return
        self.arrived += len(group.arrivals)
        if group.size >= LARGE:
            self._large.submit(self._keep_large, group)
            return
        if not self._turn:  # what arrives in one turn of the loop is kept together
            self._on_loop(self._end_turn)
        self._turn.append(group)

    def _end_turn(self) -> None:
        """Keep what this turn of the loop has brought: here if that is quick, or by the thread."""
        if self._more_is_coming():
            self._on_loop(self._end_turn)
        elif not self._turn:
            return
        elif not self._is_quick():
            self._hand_over()
        elif self._handed:
            self._put_off = True  # what came before is stored before: `_go_on` goes on
        elif not self._keep_here(self._turn):
            self._hand_over()

    def _more_is_coming(self) -> bool:
        """Say whether to look once more: the last look found arrivals, and they share a flush."""
        found, self._seen = len(self._turn) - self._seen, len(self._turn)
        if found and max(self._seen, self._gathering.population) > 1 and self._seen < _MOST_HERE:
            return True
        self._seen = 0
        return False

    def _is_quick(self) -> bool:
        """Whether a commit holds the loop up for less than handing it over would cost."""
        return self._keeper.is_local and self._gathering.at_once and len(self._turn) <= _MOST_HERE

    def _keep_here(self, groups: list[Group]) -> bool:
        """Commit in the loop's own turn; say whether that went smoothly."""
        try:
            answers = self._keeper.keep_together(groups, wait=False)
        except Exception:  # noqa: BLE001  # nothing was kept: the thread finds out what to do
            return False
        self._turn = []
        self._gathering.committed(self._keeper.flush_took, len(groups), 0)
        self._settle(groups, answers)
        return True

    def _hand_over(self) -> None:
        """Give the thread what this turn of the loop has brought, and wake it once."""
        groups, self._turn = self._turn, []
        self._handed += len(groups)
        with self._changed:
            self._waiting.extend(groups)
            if len(self._waiting) >= self._wanted:
                self._changed.notify()

    def _keep_large(self, group: Group) -> None:
        """Keep a large arrival beside the others. Whoever wants an order waits for the answer."""
        answer = self._large_keeper.keep_large(group)

        def settle() -> None:
            self._settle([group], [answer])

        assert self._loop is not None  # noqa: S101  # as above
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(settle)

    def _write_on(self) -> None:
        while groups := self._next_batch():
            answers = self._keeper.keep(groups)
            took = self._keeper.flush_took
            self._gathering.committed(took, len(groups), len(self._waiting))
            self._report(groups, answers)

    def _next_batch(self) -> list[Group]:
        """Wait for arrivals, gather company where that pays, and take them; none at the end."""
        with self._changed:
            while not self._waiting and not self._closing:
                self._changed.wait()
            self._gather()
            return self._take()

    def _gather(self) -> None:
        until = self._timer() + self._gathering.patience(len(self._waiting))
        self._wanted = self._gathering.population
        while self._waiting and not self._closing:
            left = until - self._timer()
            if left <= 0 or len(self._waiting) >= self._wanted:
                break
            self._changed.wait(left)
        self._wanted = 1

    def _take(self) -> list[Group]:
        groups: list[Group] = []
        arrivals = size = 0
        while self._waiting and arrivals < _MOST_ARRIVALS and size < _MOST_BYTES:
            group = self._waiting.popleft()
            arrivals += len(group.arrivals)
            size += group.size
            groups.append(group)
        return groups

    def _on_loop(self, call: Callable[[], object]) -> None:
        assert self._loop is not None  # noqa: S101  # whoever has arrivals has started us
        self._loop.call_soon(call)

    def _report(self, groups: Sequence[Group], answers: Sequence[Answer]) -> None:
        """Tell everyone at once: waking the loop costs as much for one as for a thousand."""

        def settle_all() -> None:
            self._handed -= len(groups)
            self._settle(groups, answers)
            self._go_on()

        assert self._loop is not None  # noqa: S101  # start() set it before this thread ran
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(settle_all)

    def _go_on(self) -> None:
        """Keep what was put off, if nothing that came before it is in hand any more."""
        if self._put_off and not self._handed:
            self._put_off = False
            self._end_turn()

    def _settle(self, groups: Sequence[Group], answers: Sequence[Answer]) -> None:
        try:
            with self._together:
                for group, answer in zip(groups, answers, strict=True):
                    try:
                        group.settle(answer)
                    except Exception as error:  # noqa: BLE001  # the others are answered all the same
                        _log.error("not told", error=describe(error), trace=where(error))
        finally:
            self._announce()


def _resolve(future: asyncio.Future[Any], answer: object) -> None:
    if future.done():  # the connection went away meanwhile
        return
    if isinstance(answer, BaseException):
        future.set_exception(answer)
    else:
        future.set_result(answer)
