"""The ledger: keep what arrives before it is acknowledged, and note written acknowledgments.

Who claims messages meanwhile writes it down with the claim, which is most of them where they are
applied as they come. The rest is written in a thread of its own, so that no arrival waits for a
note. What the database does not take now is noted later; what a power cut takes back was
acknowledged all the same.

All arrivals that wait share one transaction and one flush to disk, which a thread writes. Where
the database offers short work on the event loop (`bridge.store.short_work`), the loop commits small
batches itself. This module does not know what a message means.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import structlog

from bridge.executors import Threads
from bridge.queue.errors import LedgerClosed
from bridge.queue.ledger.acknowledgments import AcknowledgmentNotes
from bridge.queue.ledger.arrivals import Arrival, Receipt
from bridge.queue.ledger.commit_delay import CommitDelay
from bridge.queue.ledger.writer import ArrivalGroup, ArrivalWriter, GroupResult
from bridge.redaction import describe, stack_frames
from bridge.store.database import Database
from bridge.workers.offload import LARGE

_MOST_ARRIVALS = 1000
_MOST_BYTES = 32 * 2**20
_MOST_ON_LOOP = 400  # arrivals of a batch that the loop commits: some 5 ms


_log = structlog.get_logger("ledger")


def _nobody() -> None:
    """Notify nobody."""


class Ledger:
    """
    The durable inbox's front door. Its methods belong on the event loop's thread.

    `accept` and `accept_many` give futures that succeed only after the commit, and fail with
    StoreUnavailable when nothing could be kept, with StoreError when the arrival itself cannot
    be, and with LedgerClosed after `stop`.
    """

    def __init__(self, database: Database) -> None:
        self._keeper = ArrivalWriter(database)
        self._large_keeper = ArrivalWriter(database)
        self._short_work = database.short_work
        self._delay = CommitDelay() if database.commit_delay else None
        self._waiting: deque[ArrivalGroup] = deque()
        self._wanted = 0  # so many groups end the wait of `_timer`
        self._timer: asyncio.TimerHandle | None = None
        self._idle = asyncio.Event()  # the thread has no batch
        self._idle.set()
        self._large: set[asyncio.Task[None]] = set()
        self.notes = AcknowledgmentNotes(database)
        self._announce: Callable[[], object] = _nobody
        self.arrived = 0  # all arrivals so far
        self._seen = 0  # arrivals that waited at the last look
        self._last_batch = 1  # groups in it
        self._closing = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def call_after_batch(self, to: Callable[[], object]) -> None:
        """Call `to` on the loop's thread after each batch, once its arrivals are answered for."""
        self._announce = to

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to write; futures will belong to `loop`."""
        self._loop = loop
        self._closing = False
        self.notes.start()

    async def stop(self) -> None:
        """Write what still waits, then end. What comes later is refused."""
        self._closing = True
        while self._waiting or not self._idle.is_set():
            if self._idle.is_set():
                self._hand_over()
            await self._idle.wait()
        if self._large:
            await asyncio.wait(self._large)
        if self._loop is not None:
            await Threads.INTAKE.run(self.notes.stop)
        self._large_keeper.close()
        self._keeper.close()

    def accept(self, arrival: Arrival) -> asyncio.Future[Receipt]:
        """Keep one message."""
        future: asyncio.Future[Receipt] = self._new_future()
        self.submit(arrival, lambda answer: _resolve(future, answer))
        return future

    def submit(self, arrival: Arrival, settle: Callable[[Receipt | BaseException], object]) -> None:
        """
        Keep one message, as `accept` does, and call `settle` with the result.

        `settle` is called once, on the loop's thread and soon after the commit; within this
        call after `stop`. What it raises is logged, and does not concern others of its batch.
        """
        if self._loop is None:
            raise LedgerClosed

        def settle_one(answer: GroupResult) -> None:
            settle(answer if isinstance(answer, BaseException) else answer[0])

        self._submit(ArrivalGroup((arrival,), settle_one, len(arrival.payload)))

    def accept_many(self, arrivals: Sequence[Arrival]) -> asyncio.Future[Sequence[Receipt]]:
        """Keep all messages of a batch, or none."""
        future: asyncio.Future[Sequence[Receipt]] = self._new_future()
        size = sum(len(arrival.payload) for arrival in arrivals)
        self._submit(ArrivalGroup(arrivals, lambda answer: _resolve(future, answer), size))
        return future

    def acknowledged(self, message_id: int) -> None:
        """Note that the ACK was written out; kept within a second or so, many in one statement."""
        self.notes.add(message_id)

    def _new_future(self) -> asyncio.Future[Any]:
        if self._loop is None:
            raise LedgerClosed
        return self._loop.create_future()

    def _submit(self, group: ArrivalGroup) -> None:
        if self._closing or self._loop is None:
            group.settle(LedgerClosed())
            return
        self.arrived += len(group.arrivals)
        if group.size >= LARGE:
            task = self._loop.create_task(self._write_large(group), name="large arrival")
            self._large.add(task)
            task.add_done_callback(self._large.discard)
            return
        if not self._waiting:
            self._loop.call_soon(self._end_turn)
        self._waiting.append(group)
        if self._wanted and len(self._waiting) >= self._wanted:
            self._hand_over()

    def _end_turn(self) -> None:
        """Write what has arrived by the end of this turn of the loop."""
        if self._timer is not None or not self._idle.is_set():  # `_written` goes on
            self._seen = 0
        elif self._more_is_coming():
            assert self._loop is not None  # noqa: S101  # start() set it before any arrival
            self._loop.call_soon(self._end_turn)
        elif not self._commit_on_loop():
            self._begin_writing()

    def _more_is_coming(self) -> bool:
        """Return whether to look again: the last look found arrivals, which share the flush."""
        found, self._seen = len(self._waiting) - self._seen, len(self._waiting)
        if found and max(self._seen, self._last_batch) > 1 and self._seen < _MOST_ON_LOOP:
            return True
        self._seen = 0
        return False

    def _begin_writing(self) -> None:
        """Let the thread write what waits, on a slow disk after a short wait for more."""
        delay = self._delay
        seconds = 0.0 if delay is None or self._closing else delay.seconds(len(self._waiting))
        if seconds > 0 and delay is not None:
            assert self._loop is not None  # noqa: S101  # as above
            self._wanted = delay.expected
            self._timer = self._loop.call_later(seconds, self._hand_over)
        else:
            self._hand_over()

    def _hand_over(self) -> None:
        """
        Give the thread a batch; what comes meanwhile is the next one.

        Without a task: where the loop is busy, each of a task's steps waits for a turn of it.
        """
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._wanted = None, 0
        if groups := self._take():
            self._idle.clear()
            Threads.LEDGER.executor.submit(self._write, groups)

    def _write(self, groups: Sequence[ArrivalGroup]) -> None:
        """Write a batch; on the thread. The keeper raises nothing."""
        answers = self._keeper.write(groups)
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._written, groups, answers)

    def _written(self, groups: Sequence[ArrivalGroup], answers: Sequence[GroupResult]) -> None:
        if self._delay is not None:
            self._delay.committed(self._keeper.commit_seconds, len(groups), len(self._waiting))
        self._idle.set()
        self._settle(groups, answers)
        if not self._commit_on_loop():
            self._begin_writing()

    def _commit_on_loop(self) -> bool:
        """Commit what waits on the loop; return whether nothing waits any more."""
        if not self._waiting:
            return True
        if self._short_work is None or len(self._waiting) > _MOST_ON_LOOP:
            return False
        groups = list(self._waiting)
        try:
            answers = self._short_work.run(partial(self._keeper.write_together, groups))
        except Exception:  # noqa: BLE001  # nothing was stored: the thread finds out why
            return False
        self._waiting.clear()
        self._settle(groups, answers)
        return True

    async def _write_large(self, group: ArrivalGroup) -> None:
        """Store a large arrival beside the others; its sender waits for the receipt."""
        answer = await Threads.LARGE_ARRIVALS.run(self._large_keeper.write_large, group)
        self._settle([group], [answer])

    def _take(self) -> list[ArrivalGroup]:
        groups: list[ArrivalGroup] = []
        arrivals = size = 0
        while self._waiting and arrivals < _MOST_ARRIVALS and size < _MOST_BYTES:
            group = self._waiting.popleft()
            arrivals += len(group.arrivals)
            size += group.size
            groups.append(group)
        return groups

    def _settle(self, groups: Sequence[ArrivalGroup], answers: Sequence[GroupResult]) -> None:
        self._last_batch = len(groups)
        try:
            for group, answer in zip(groups, answers, strict=True):
                try:
                    group.settle(answer)
                except Exception as error:  # noqa: BLE001  # the others are answered all the same
                    _log.error(
                        "arrival not settled", error=describe(error), trace=stack_frames(error)
                    )
        finally:
            self._announce()


def _resolve(future: asyncio.Future[Any], answer: object) -> None:
    if future.done():  # the connection went away meanwhile
        return
    if isinstance(answer, BaseException):
        future.set_exception(answer)
    else:
        future.set_result(answer)
