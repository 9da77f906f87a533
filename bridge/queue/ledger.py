"""
Keep what arrives before anybody is told that it was kept.

One thread writes: whatever waits shares one transaction and one flush to disk, and the event
loop learns of it only after the commit. A storage failure fails the futures of its batch, and
the next batch tries afresh. What a message means is not known here.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from bridge.queue import statements as sql
from bridge.queue.arrivals import Arrival, Receipt
from bridge.queue.errors import LedgerClosed
from bridge.queue.gathering import Gathering
from bridge.queue.inserts import admit
from bridge.store.database import Database
from bridge.store.errors import Conflict, StatementRefused, StoreError, StoreUnavailable

_MOST_ARRIVALS = 1000
_MOST_BYTES = 32 * 2**20
_ACKNOWLEDGMENTS_EVERY = 0.5  # seconds a note may wait for an arrival's commit to share
_TRIES = 3  # of a batch that lost a race against another node


_Answer = Sequence[Receipt] | BaseException


@dataclass(slots=True)
class _Group:
    """Arrivals that are kept all or none, and who waits for them."""

    arrivals: Sequence[Arrival]
    settle: Callable[[_Answer], object]
    size: int


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
        self, database: Database, *, timer: Callable[[], float] = time.perf_counter
    ) -> None:
        self._database = database
        self._timer = timer
        self._changed = threading.Condition()
        self._turn: list[_Group] = []  # the loop's own, until it hands them over
        self._waiting: deque[_Group] = deque()
        self._wanted = 1  # so many must wait before the thread is woken
        self._acknowledged: deque[int] = deque()
        self._announce: Callable[[], object] = _nobody
        self.arrived = 0  # in all, for whoever wants to know how fast they come
        self._gathering = Gathering()
        self._flush_took = 0.0
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
        self._thread = threading.Thread(target=self._write_on, name="ledger", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """Write what still waits, then end. What comes later is refused."""
        self._hand_over()
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    def accept(self, arrival: Arrival) -> asyncio.Future[Receipt]:
        """Keep one message."""
        future: asyncio.Future[Receipt] = self._new_future()
        self.submit(arrival, lambda answer: _resolve(future, answer))
        return future

    def submit(self, arrival: Arrival, settle: Callable[[Receipt | BaseException], object]) -> None:
        """
        Keep one message, as `accept` does, and tell what came of it without a future.

        `settle` is called once, on the loop's thread and soon after the commit; within this
        call after `stop`. It must not raise: others of its batch come after it.
        """
        if self._loop is None:
            raise LedgerClosed

        def settle_one(answer: _Answer) -> None:
            settle(answer if isinstance(answer, BaseException) else answer[0])

        self._submit(_Group((arrival,), settle_one, len(arrival.payload)))

    def accept_many(self, arrivals: Sequence[Arrival]) -> asyncio.Future[Sequence[Receipt]]:
        """Keep all messages of a batch, or none."""
        future: asyncio.Future[Sequence[Receipt]] = self._new_future()
        size = sum(len(arrival.payload) for arrival in arrivals)
        self._submit(_Group(arrivals, lambda answer: _resolve(future, answer), size))
        return future

    def acknowledged(self, message_id: int) -> None:
        """Note that the ACK was written out; kept with the next commit, at no cost of its own."""
        self._acknowledged.append(message_id)  # atomic; the thread looks soon enough

    def _new_future(self) -> asyncio.Future[Any]:
        if self._loop is None:
            raise LedgerClosed
        return self._loop.create_future()

    def _submit(self, group: _Group) -> None:
        if self._closing or self._loop is None:
            group.settle(LedgerClosed())
            return
        if not self._turn:  # what arrives in one turn of the loop is handed over together
            self._loop.call_soon(self._hand_over)
        self._turn.append(group)
        self.arrived += len(group.arrivals)

    def _hand_over(self) -> None:
        """Give the thread what this turn of the loop has brought, and wake it once."""
        groups, self._turn = self._turn, []
        with self._changed:
            self._waiting.extend(groups)
            if len(self._waiting) >= self._wanted:
                self._changed.notify()

    def _write_on(self) -> None:
        while (batch := self._next_batch()) is not None:
            groups, notes = batch
            answers = self._keep(groups, notes)
            if groups:
                self._gathering.committed(self._flush_took, len(groups), len(self._waiting))
                self._report(groups, answers)

    def _next_batch(self) -> tuple[list[_Group], list[int]] | None:
        """Wait for arrivals, gather company where that pays, and take them; None at the end."""
        with self._changed:
            while not self._waiting and not self._closing:
                if not self._changed.wait(_ACKNOWLEDGMENTS_EVERY) and self._acknowledged:
                    break
            self._gather()
            notes = [self._acknowledged.popleft() for _ in range(len(self._acknowledged))]
            if self._closing and not self._waiting and not notes:
                return None
            return self._take(), notes

    def _gather(self) -> None:
        until = self._timer() + self._gathering.patience(len(self._waiting))
        self._wanted = self._gathering.population
        while self._waiting and not self._closing:
            left = until - self._timer()
            if left <= 0 or len(self._waiting) >= self._wanted:
                break
            self._changed.wait(left)
        self._wanted = 1

    def _take(self) -> list[_Group]:
        groups: list[_Group] = []
        arrivals = size = 0
        while self._waiting and arrivals < _MOST_ARRIVALS and size < _MOST_BYTES:
            group = self._waiting.popleft()
            arrivals += len(group.arrivals)
            size += group.size
            groups.append(group)
        return groups

    def _keep(self, groups: Sequence[_Group], notes: list[int]) -> Sequence[_Answer]:
        """Store a batch; whatever goes wrong, nothing of it stays open and everyone is told."""
        for _ in range(_TRIES):
            try:
                return self._keep_together(groups, notes)
            except Conflict:
                continue  # another node stored a copy meanwhile: now it will be found
            except StoreUnavailable as error:
                self._note_later(notes)
                return [error] * len(groups)
            except Exception:  # noqa: BLE001  # one of them cannot be stored: find out which
                break
        self._note_later(notes)
        try:
            return self._keep_apart(groups)
        except Exception as error:  # noqa: BLE001  # the thread must live, and the callers know
            return [_as_store_error(error)] * len(groups)

    def _keep_together(self, groups: Sequence[_Group], notes: list[int]) -> Sequence[_Answer]:
        arrivals = [arrival for group in groups for arrival in group.arrivals]
        with self._database.write() as connection:
            receipts = iter(admit(self._database, connection, arrivals) if arrivals else ())
            if notes:
                connection.execute(sql.ACKNOWLEDGED, {"ids": notes})
            written = self._timer()
        self._flush_took = self._timer() - written
        return [[next(receipts) for _ in group.arrivals] for group in groups]

    def _keep_apart(self, groups: Sequence[_Group]) -> Sequence[_Answer]:
        with self._database.write() as connection:
            return [self._keep_one(connection, group) for group in groups]

    def _keep_one(self, connection: Connection, group: _Group) -> _Answer:
        try:
            with self._database.savepoint(connection):
                return admit(self._database, connection, group.arrivals)
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001  # only this one is at fault
            return _as_store_error(error)

    def _note_later(self, notes: list[int]) -> None:
        with self._changed:
            if not self._closing:
                self._acknowledged.extendleft(reversed(notes))

    def _report(self, groups: Sequence[_Group], answers: Sequence[_Answer]) -> None:
        """Tell everyone at once: waking the loop costs as much for one as for a thousand."""

        def settle_all() -> None:
            for group, answer in zip(groups, answers, strict=True):
                group.settle(answer)
            self._announce()

        assert self._loop is not None  # noqa: S101  # start() set it before this thread ran
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(settle_all)


def _resolve(future: asyncio.Future[Any], answer: object) -> None:
    if future.done():  # the connection went away meanwhile
        return
    if isinstance(answer, BaseException):
        future.set_exception(answer)
    else:
        future.set_result(answer)


def _as_store_error(error: Exception) -> StoreError:
    """Say no more of an unforeseen error than its kind: its words may quote the row."""
    return error if isinstance(error, StoreError) else StatementRefused(type(error).__name__)
