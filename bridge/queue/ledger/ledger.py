"""
The ledger: store arrivals durably before they are acknowledged.

All waiting arrivals share one transaction and one flush to disk, which a thread writes (group
commit). Where the database allows short work on the event loop (`bridge.store.short_work`), the
loop commits small batches itself. This module does not interpret messages.

Where a commit is slow, the ledger waits a little for more arrivals. ADR 0007 has the measured gain;
`database.commit_delay` is the setting. Senders that wait for each acknowledgment split into two
halves, and each half waits for the other one's commit. A short wait merges both into one batch.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import structlog

from bridge.executors import Threads, set_outcome
from bridge.queue.errors import LedgerClosed
from bridge.queue.ledger.acknowledgment_notes import AcknowledgmentNotes
from bridge.queue.ledger.arrivals import Arrival, Receipt
from bridge.queue.ledger.writer import ArrivalGroup, ArrivalWriter, GroupResult
from bridge.redaction import describe, stack_frames
from bridge.store.database import Database
from bridge.workers.offload import LARGE

_SLOW = 0.001  # seconds; faster commits are not delayed
_SHARE = 0.4  # longest wait, as a share of the average commit time
_WEIGHT = 0.2  # weight of the newest commit in the moving average


@dataclass(slots=True)
class CommitDelay:
    """Observes commits; returns how long to wait for further arrivals, and how many to expect."""

    average: float = 0.0
    expected: int = 0
    """Arrivals of the last batch, and those that came while it was written."""

    def committed(self, seconds: float, size: int, waiting: int) -> None:
        """Record a commit of `size` arrivals during which `waiting` others came."""
        self.average += (seconds - self.average) * (_WEIGHT if self.average else 1.0)
        self.expected = size + waiting

    def seconds(self, waiting: int) -> float:
        """Return the maximum wait in seconds while `waiting` arrivals wait."""
        if self.average <= _SLOW or waiting >= self.expected:
            return 0.0
        return self.average * _SHARE


_MAX_ARRIVALS = 1000
_MAX_BYTES = 32 * 2**20
_MAX_ON_LOOP = 400  # arrivals of a batch that the loop commits: some 5 ms


_log = structlog.get_logger("ledger")


def _ignore() -> None:
    """Do nothing."""


class ArrivalStore(Protocol):
    """Stores messages for a listener: the ledger, or a sequencer in front of it."""

    def submit(
        self, arrival: Arrival, on_stored: Callable[[Receipt | BaseException], object]
    ) -> None:
        """Store one message; call `on_stored` after the commit."""

    def accept_many(self, arrivals: Sequence[Arrival]) -> asyncio.Future[Sequence[Receipt]]:
        """Store all messages or none."""

    def acknowledged(self, message_id: int) -> None:
        """Record that the acknowledgment of a message was passed to its connection."""


class Ledger:
    """
    Stores arrivals. Its methods must be called on the event loop's thread.

    The results of `submit` and `accept_many` are known after the commit. They are StoreUnavailable
    if nothing could be stored, StoreError if this arrival cannot be stored, and LedgerClosed after
    `stop`.
    """

    def __init__(self, database: Database) -> None:
        self._writer = ArrivalWriter(database)
        self._large_writer = ArrivalWriter(database)
        self._short_work = database.short_work
        self._delay = CommitDelay() if database.commit_delay else None
        self._waiting: deque[ArrivalGroup] = deque()
        self._wake_at = 0  # number of groups that ends the wait of `_timer`
        self._timer: asyncio.TimerHandle | None = None
        self._idle = asyncio.Event()  # set while the thread has no batch
        self._idle.set()
        self._large: set[asyncio.Task[None]] = set()
        self.notes = AcknowledgmentNotes(database)
        self._on_batch: Callable[[], object] = _ignore
        self.arrived = 0  # all arrivals so far
        self._seen = 0  # waiting arrivals at the last check
        self._last_batch_size = 1  # groups in it
        self._closing = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def call_after_batch(self, callback: Callable[[], object]) -> None:
        """Call `callback` on the loop's thread after each batch, once its results are reported."""
        self._on_batch = callback

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start writing; futures belong to `loop`."""
        self._loop = loop
        self._closing = False
        self.notes.start()

    async def stop(self) -> None:
        """Write the waiting arrivals and stop. Later arrivals are refused."""
        self._closing = True
        while self._waiting or not self._idle.is_set():
            if self._idle.is_set():
                self._submit_batch()
            await self._idle.wait()
        if self._large:
            await asyncio.wait(self._large)
        if self._loop is not None:
            await Threads.INTAKE.run(self.notes.stop)
        self._large_writer.close()
        self._writer.close()

    def submit(
        self, arrival: Arrival, on_stored: Callable[[Receipt | BaseException], object]
    ) -> None:
        """
        Store one message, and call `on_stored` with the receipt or the error.

        It is called once, on the loop's thread soon after the commit; after `stop` within this
        call. An exception of `on_stored` is logged and does not affect others of its batch.
        """
        if self._loop is None:
            raise LedgerClosed

        def report(result: GroupResult) -> None:
            on_stored(result if isinstance(result, BaseException) else result[0])

        size = len(arrival.payload)
        self._submit(ArrivalGroup((arrival,), report, size), is_large=size >= LARGE)

    def accept_many(self, arrivals: Sequence[Arrival]) -> asyncio.Future[Sequence[Receipt]]:
        """Store all messages of a batch, or none."""
        if self._loop is None:
            raise LedgerClosed
        future: asyncio.Future[Sequence[Receipt]] = self._loop.create_future()
        size = sum(len(arrival.payload) for arrival in arrivals)
        # The parts of a message repeat it. Its sender waits only if the frame itself is large.
        frame = sum(len(arrival.payload) for arrival in arrivals if not arrival.is_later_part)
        group = ArrivalGroup(arrivals, lambda result: set_outcome(future, result), size)
        self._submit(group, is_large=frame >= LARGE)
        return future

    def acknowledged(self, message_id: int) -> None:
        """Record that the ACK was sent; written within about a second, many in one statement."""
        self.notes.add(message_id)

    def _submit(self, group: ArrivalGroup, *, is_large: bool) -> None:
        if self._closing or self._loop is None:
            group.on_stored(LedgerClosed())
            return
        self.arrived += len(group.arrivals)
        if is_large:
            task = self._loop.create_task(self._write_large(group), name="large arrival")
            self._large.add(task)
            task.add_done_callback(self._large.discard)
            return
        if not self._waiting:
            self._loop.call_soon(self._end_turn)
        self._waiting.append(group)
        if self._wake_at and len(self._waiting) >= self._wake_at:
            self._submit_batch()

    def _end_turn(self) -> None:
        """Write the arrivals that came in this iteration of the loop."""
        if self._timer is not None or not self._idle.is_set():  # `_written` continues
            self._seen = 0
        elif self._more_is_coming():
            assert self._loop is not None  # noqa: S101  # start() set it before any arrival
            self._loop.call_soon(self._end_turn)
        elif not self._commit_on_loop():
            self._begin_writing()

    def _more_is_coming(self) -> bool:
        """Return whether to check again because arrivals came since the last check."""
        found, self._seen = len(self._waiting) - self._seen, len(self._waiting)
        if found and max(self._seen, self._last_batch_size) > 1 and self._seen < _MAX_ON_LOOP:
            return True
        self._seen = 0
        return False

    def _begin_writing(self) -> None:
        """Submit the waiting arrivals; on a slow disk after a short wait for more."""
        delay = self._delay
        seconds = 0.0 if delay is None or self._closing else delay.seconds(len(self._waiting))
        if seconds > 0 and delay is not None:
            assert self._loop is not None  # noqa: S101  # as above
            self._wake_at = delay.expected
            self._timer = self._loop.call_later(seconds, self._submit_batch)
        else:
            self._submit_batch()

    def _submit_batch(self) -> None:
        """
        Submit a batch to the thread; later arrivals form the next one.

        Without a task: on a busy loop each step of a task waits for an iteration.
        """
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._wake_at = None, 0
        if groups := self._next_batch():
            self._idle.clear()
            Threads.LEDGER.executor.submit(self._write, groups)

    def _write(self, groups: Sequence[ArrivalGroup]) -> None:
        """Write a batch on the thread. The writer raises nothing."""
        results = self._writer.write(groups)
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._written, groups, results)

    def _written(self, groups: Sequence[ArrivalGroup], results: Sequence[GroupResult]) -> None:
        if self._delay is not None:
            self._delay.committed(self._writer.commit_seconds, len(groups), len(self._waiting))
        self._idle.set()
        self._report(groups, results)
        if not self._commit_on_loop():
            self._begin_writing()

    def _commit_on_loop(self) -> bool:
        """Commit the waiting arrivals on the loop; return whether none is left."""
        if not self._waiting:
            return True
        if self._short_work is None or len(self._waiting) > _MAX_ON_LOOP:
            return False
        if any(group.size >= LARGE for group in self._waiting):  # the parts of a message
            return False
        groups = list(self._waiting)
        try:
            results = self._short_work.run(partial(self._writer.write_together, groups))
        except Exception:  # noqa: BLE001  # nothing was stored: the thread repeats it and reports the error
            return False
        self._waiting.clear()
        self._report(groups, results)
        return True

    async def _write_large(self, group: ArrivalGroup) -> None:
        """Store a large arrival concurrently with the batches; its sender waits for the receipt."""
        result = await Threads.LARGE_ARRIVALS.run(self._large_writer.write_large, group)
        self._report([group], [result])

    def _next_batch(self) -> list[ArrivalGroup]:
        groups: list[ArrivalGroup] = []
        arrivals = size = 0
        while self._waiting and arrivals < _MAX_ARRIVALS and size < _MAX_BYTES:
            group = self._waiting.popleft()
            arrivals += len(group.arrivals)
            size += group.size
            groups.append(group)
        return groups

    def _report(self, groups: Sequence[ArrivalGroup], results: Sequence[GroupResult]) -> None:
        self._last_batch_size = len(groups)
        try:
            for group, result in zip(groups, results, strict=True):
                try:
                    group.on_stored(result)
                except Exception as error:  # noqa: BLE001  # the other groups need their results
                    _log.error(
                        "callback of an arrival failed",
                        error=describe(error),
                        trace=stack_frames(error),
                    )
        finally:
            self._on_batch()
