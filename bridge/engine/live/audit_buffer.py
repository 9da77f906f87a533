"""
Audit events of reads, buffered and written in batches.

A read has no write transaction that could record its audit event, so the events of a short period
share one. A process that is killed loses at most the events of that period. Changes are recorded in
their own transactions and lose nothing.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import structlog

from bridge.audit.chain import ENGINE_CHAIN
from bridge.audit.events import AuditEvent, Outcome
from bridge.engine.live.database_executor import DatabaseExecutor
from bridge.engine.service.accounts import audit_queries
from bridge.store.errors import StoreError

PAUSE_SECONDS = 0.2
"""Seconds that an event may wait for others to share its commit."""

MAX_WAITING = 20_000
"""The size of the buffer. Beyond it the oldest events are dropped, and their number is recorded."""

MAX_BATCH_EVENTS = 500
"""Maximum number of events in one commit, for which other writers of the trail wait."""

log = structlog.get_logger(__name__)


class AuditBuffer:
    """A buffer of audit events on their way to the audit trail."""

    def __init__(self, executor: DatabaseExecutor, clock: Callable[[], int]) -> None:
        self._executor = executor
        self._clock = clock
        self._waiting: list[tuple[int, AuditEvent]] = []
        self._dropped = 0
        self._tally = audit_queries.RefusalTally()
        self._task: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()  # a caller of `flush` waits for a write in progress

    def add(self, events: Sequence[AuditEvent]) -> None:
        """Buffer events, which are written shortly after. Call it on the event loop."""
        now = self._clock()
        for event in events:
            if audit_queries.is_anonymous(event):
                self._tally.count(event, now)
            else:
                self._waiting.append((now, event))
        excess = len(self._waiting) - MAX_WAITING
        if excess > 0:
            self._dropped += excess
            del self._waiting[:excess]
        if (self._waiting or self._tally) and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._flush_later(), name="audit")

    async def flush(self) -> None:
        """Write the buffered events; those that cannot be written stay buffered."""
        async with self._writing:
            await self._flush()

    async def _flush(self) -> None:
        taken, self._waiting = self._waiting, []
        dropped, self._dropped = self._dropped, 0
        counts = self._tally.take()
        if not taken and not counts:
            return
        events = merged(taken)
        if dropped:
            note = AuditEvent("audit-overflow", outcome=Outcome.REFUSED, details={"count": dropped})
            events.append((self._clock(), note))
        while events or counts:
            some, events = events[:MAX_BATCH_EVENTS], events[MAX_BATCH_EVENTS:]
            try:
                await self._executor.run(partial(self._record, some, counts))
            except StoreError as error:
                events = some + events
                failure, count = type(error).__name__, len(events)
                log.warning("audit_events_not_stored", failure=failure, count=count)
                self._waiting = events + self._waiting
                self._tally.give_back(counts)
                return
            counts.clear()

    async def stop(self) -> None:
        """Stop the background task and write the buffered events."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        await self.flush()

    async def _flush_later(self) -> None:
        while self._waiting or self._tally:
            await asyncio.sleep(PAUSE_SECONDS)
            await asyncio.shield(self.flush())

    def _record(
        self,
        events: Sequence[tuple[int, AuditEvent]],
        counts: Mapping[audit_queries.RefusalKey, int],
    ) -> None:
        database = self._executor.database
        with database.write() as connection:
            if counts:
                database.serialize(connection, audit_queries.LOCK)
                audit_queries.add_counts(connection, counts)
            ENGINE_CHAIN.record_all(connection, database, events)


def merged(events: Sequence[tuple[int, AuditEvent]]) -> list[tuple[int, AuditEvent]]:
    """Merge refusals that differ only in their request into one event; keep all successes."""
    counted: dict[object, tuple[int, AuditEvent, int]] = {}
    for number, (at, event) in enumerate(events):
        details = {name: value for name, value in event.details.items() if name != "request"}
        alike = str(replace(event, details=dict(sorted(details.items()))))
        key: object = number if event.outcome is Outcome.SUCCESS else alike
        first = counted.get(key)
        counted[key] = (at, event, 1) if first is None else (*first[:2], first[2] + 1)
    return [
        (at, event if count == 1 else replace(event, details={**event.details, "count": count}))
        for at, event, count in counted.values()
    ]
