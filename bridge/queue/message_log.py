"""
The message log: store arrivals durably before they are acknowledged.

All arrivals that wait while a thread commits share the next commit (group commit). The tables are
in `log_tables`. This module does not interpret messages.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import structlog

from bridge.executors import Threads, set_outcome
from bridge.queue.arrivals import Arrival, Receipt
from bridge.queue.errors import LogClosed
from bridge.queue.log_tables import log_tables
from bridge.queue.payload_blobs import PayloadBlobs
from bridge.redaction import describe, stack_frames
from bridge.store.database import Database
from bridge.store.errors import (
    Conflict,
    Lost,
    StatementRefused,
    StoreError,
    StoreUnavailable,
    driver_errors,
    translate,
)
from bridge.workers.offload import LARGE

_MAX_ARRIVALS, _MAX_BYTES = 1000, 32 * 2**20  # of one transaction
_MAX_TRIES = 3  # tries of a batch that conflicted with another node or lost its connection
_PASS_ON_SECONDS = 0.5  # acknowledgments of this period are passed on together
_PRUNE_SECONDS = 5.0

_log = structlog.get_logger("message log")

Result = Sequence[Receipt] | BaseException

OnBatch = Callable[[Sequence[int]], object]
"""
Called on the loop's thread after each batch, once its results are reported: there is something to
claim. Its argument is the ids of messages whose acknowledgment was passed to its connection since
the last call.
"""


class ArrivalStore(Protocol):
    """Stores messages for a listener: the log, or a sequencer in front of it."""

    def submit(
        self, arrival: Arrival, on_stored: Callable[[Receipt | BaseException], object]
    ) -> None:
        """Store one message; call `on_stored` after the commit."""

    def accept_many(self, arrivals: Sequence[Arrival]) -> asyncio.Future[Sequence[Receipt]]:
        """Store all messages or none."""

    def acknowledged(self, message_id: int) -> None:
        """Record that the acknowledgment of a message was passed to its connection."""


@dataclass(slots=True)
class _Group:
    """Arrivals that are stored all or none, and the callback for the result."""

    arrivals: Sequence[Arrival]
    on_stored: Callable[[Result], object]
    size: int


class MessageLog:
    """
    Stores arrivals. Its methods must be called on the event loop's thread.

    The results of `submit` and `accept_many` are known after the commit. They are StoreUnavailable
    if nothing could be stored, StoreError if this arrival cannot be stored, and LogClosed after
    `stop`.
    """

    def __init__(self, database: Database, on_batch: OnBatch = lambda _: None) -> None:
        self._tables = log_tables(database)
        self.database = None if self._tables.database is database else self._tables.database
        """The log's own file, whose commits the caller checkpoints; None on PostgreSQL."""
        self._blobs = PayloadBlobs(database)
        self._blobs_lock = asyncio.Lock()  # they have one connection
        self._on_batch = on_batch
        self._waiting: deque[_Group] = deque()
        self._large: set[asyncio.Task[None]] = set()
        self._acknowledged: list[int] = []
        self._timers: dict[Callable[[], None], asyncio.TimerHandle] = {}
        self._idle = asyncio.Event()  # set while the thread has no batch and none waits
        self._idle.set()
        self._closing = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start writing; futures belong to `loop`."""
        self._loop = loop
        self._closing = False
        self._call_later(_PRUNE_SECONDS, self._begin_pruning)

    async def stop(self) -> None:
        """Write the waiting arrivals and stop. Later arrivals are refused."""
        self._closing = True
        if self._large:
            await asyncio.wait(self._large)
        await self._idle.wait()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._pass_on()
        await Threads.MESSAGE_LOG.run(self._close)

    def _close(self) -> None:
        self._tables.close()
        self._blobs.close()

    def submit(
        self, arrival: Arrival, on_stored: Callable[[Receipt | BaseException], object]
    ) -> None:
        """
        Store one message, and call `on_stored` with the receipt or the error.

        It is called once, on the loop's thread soon after the commit; after `stop` within this
        call. An exception of `on_stored` is logged and does not affect others of its batch.
        """

        def report(result: Result) -> None:
            on_stored(result if isinstance(result, BaseException) else result[0])

        size = len(arrival.payload)
        self._submit(_Group((arrival,), report, size), is_large=size >= LARGE)

    def accept_many(self, arrivals: Sequence[Arrival]) -> asyncio.Future[Sequence[Receipt]]:
        """Store all messages of a batch, or none."""
        if self._loop is None:
            raise LogClosed
        future: asyncio.Future[Sequence[Receipt]] = self._loop.create_future()
        size = sum(len(arrival.payload) for arrival in arrivals)
        # The parts of a message repeat it. Its sender waits only if the frame itself is large.
        frame = sum(len(arrival.payload) for arrival in arrivals if not arrival.is_later_part)
        group = _Group(arrivals, lambda result: set_outcome(future, result), size)
        self._submit(group, is_large=frame >= LARGE)
        return future

    def acknowledged(self, message_id: int) -> None:
        """Record that the acknowledgment of a message was passed to its connection."""
        self._acknowledged.append(message_id)
        self._call_later(_PASS_ON_SECONDS, self._pass_on)

    def _submit(self, group: _Group, *, is_large: bool) -> None:
        if self._loop is None:
            raise LogClosed
        if self._closing:
            group.on_stored(LogClosed())
        elif is_large:
            task = self._loop.create_task(self._submit_large(group), name="large arrival")
            self._large.add(task)
            task.add_done_callback(self._large.discard)
        else:
            self._enqueue(group)

    async def _submit_large(self, group: _Group) -> None:
        """Store the large payloads of a group in chunks, while other arrivals are stored."""
        try:
            async with self._blobs_lock:
                work = self._without_large_payloads
                arrivals = await Threads.EXTERNAL.run(work, group)
        except Exception as error:  # noqa: BLE001  # the sender gets an answer
            self._report([group], [_as_store_error(error)])
        else:
            self._enqueue(replace(group, arrivals=arrivals, size=0))

    def _without_large_payloads(self, group: _Group) -> list[Arrival]:
        return [
            self._blobs.store(arrival) if len(arrival.payload) >= LARGE else arrival
            for arrival in group.arrivals
        ]

    def _enqueue(self, group: _Group) -> None:
        assert self._loop is not None  # noqa: S101  # start() set it before any arrival
        self._waiting.append(group)
        if self._idle.is_set():
            self._idle.clear()
            self._loop.call_soon(self._write_next)  # with those that the same data completes

    def _write_next(self) -> None:
        if groups := self._next_batch():
            # Without a task: on a busy loop each step of a task waits for an iteration.
            Threads.MESSAGE_LOG.executor.submit(self._write_on_thread, groups)
        else:
            self._idle.set()

    def _next_batch(self) -> list[_Group]:
        groups: list[_Group] = []
        arrivals = size = 0
        while self._waiting and arrivals < _MAX_ARRIVALS and size < _MAX_BYTES:
            group = self._waiting.popleft()
            arrivals += len(group.arrivals)
            size += group.size
            groups.append(group)
        return groups

    def _write_on_thread(self, groups: Sequence[_Group]) -> None:
        results = self.write([group.arrivals for group in groups])
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._written, groups, results)

    def _written(self, groups: Sequence[_Group], results: Sequence[Result]) -> None:
        self._write_next()
        self._report(groups, results)

    def _report(self, groups: Sequence[_Group], results: Sequence[Result]) -> None:
        for group, result in zip(groups, results, strict=True):
            try:
                group.on_stored(result)
            except Exception as error:  # noqa: BLE001  # the other groups need their results
                _log.error(
                    "callback of an arrival failed",
                    error=describe(error),
                    trace=stack_frames(error),
                )
        self._pass_on()

    def write(self, groups: Sequence[Sequence[Arrival]]) -> Sequence[Result]:
        """
        Store a batch; return a result for each group. Blocking; never raises.

        After an error nothing stays open. A storage failure fails the whole batch; an arrival that
        cannot be stored fails its group only.
        """
        try:
            for _ in range(_MAX_TRIES):
                try:
                    receipts = iter(
                        self._tables.store([message for group in groups for message in group])
                    )
                    return [[next(receipts) for _ in group] for group in groups]
                except (Conflict, Lost):
                    continue  # the next attempt finds the copy that another node has stored
                except StoreUnavailable:
                    raise
                except Exception:  # noqa: BLE001  # one arrival cannot be stored: find out which
                    break
            with self._tables.transaction() as cursor:
                return [self._write_alone(cursor, group) for group in groups]
        except Exception as error:  # noqa: BLE001  # the thread must survive; callers get the error
            return [_as_store_error(error)] * len(groups)

    def _write_alone(self, cursor: Any, arrivals: Sequence[Arrival]) -> Result:
        cursor.execute("SAVEPOINT one")
        try:
            receipts = self._tables.admit(cursor, arrivals)
        except Exception as error:  # only this group fails
            known = _as_store_error(error)
            if isinstance(known, StoreUnavailable):
                raise
            cursor.execute("ROLLBACK TO SAVEPOINT one")
            return known
        cursor.execute("RELEASE SAVEPOINT one")
        return receipts

    def _pass_on(self) -> None:
        if timer := self._timers.pop(self._pass_on, None):
            timer.cancel()
        acknowledged, self._acknowledged = self._acknowledged, []
        self._on_batch(acknowledged)

    def _begin_pruning(self) -> None:
        del self._timers[self._begin_pruning]
        Threads.MESSAGE_LOG.executor.submit(self._prune)

    def _prune(self) -> None:
        try:
            is_more_left = self._tables.prune()
        except StoreError as error:  # the next call deletes them
            is_more_left = False
            _log.warning("stored messages not removed from the log", error=describe(error))
        if self._loop is not None and not self._loop.is_closed() and not self._closing:
            seconds = 0.0 if is_more_left else _PRUNE_SECONDS
            self._loop.call_soon_threadsafe(self._call_later, seconds, self._begin_pruning)

    def _call_later(self, seconds: float, call: Callable[[], None]) -> None:
        if call not in self._timers and self._loop is not None and not self._closing:
            self._timers[call] = self._loop.call_later(seconds, call)


def _as_store_error(error: Exception) -> StoreError:
    """Hide the text of an unexpected error: it may quote the row."""
    if isinstance(error, driver_errors()):
        return translate(error)
    return error if isinstance(error, StoreError) else StatementRefused(type(error).__name__)
