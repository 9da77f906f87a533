"""Record who read what, a moment later and many at once.

A read writes nothing itself, so its deed joins those of its neighbours in one transaction.
A process that is killed loses at most the last moment of reads; changes are recorded in their
own transaction and lose nothing.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import structlog

from bridge.audit.chain import ENGINE_CHAIN
from bridge.audit.events import AuditEvent, Outcome
from bridge.engine.live.database_executor import DatabaseExecutor
from bridge.engine.service.accounts import audit_trail
from bridge.store.errors import StoreError

PAUSE_SECONDS = 0.2
"""How long a deed may wait for others to share its commit."""

MAX_WAITING = 20_000
"""Beyond so many the oldest give way to the newest, and their number is recorded instead."""

MOST_AT_ONCE = 500
"""Of deeds so many share a commit: nobody else appends to the trail meanwhile."""

log = structlog.get_logger(__name__)


class AuditBuffer:
    """Deeds on their way to the audit trail."""

    def __init__(self, work: DatabaseExecutor, clock: Callable[[], int]) -> None:
        self._work = work
        self._clock = clock
        self._waiting: list[tuple[int, AuditEvent]] = []
        self._dropped = 0
        self._tally = audit_trail.RefusalTally()
        self._task: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()  # who asks for a record waits for one that is under way

    def note(self, audit_events: Sequence[AuditEvent]) -> None:
        """Take deeds, which are recorded a moment later. On the event loop."""
        now = self._clock()
        for deed in audit_events:
            if audit_trail.is_anonymous(deed):
                self._tally.count(deed, now)
            else:
                self._waiting.append((now, deed))
        excess = len(self._waiting) - MAX_WAITING
        if excess > 0:
            self._dropped += excess
            del self._waiting[:excess]
        if (self._waiting or self._tally) and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._later(), name="audit")

    async def flush(self) -> None:
        """Record what waits; what cannot be recorded goes on waiting."""
        async with self._writing:
            await self._flush()

    async def _flush(self) -> None:
        taken, self._waiting = self._waiting, []
        dropped, self._dropped = self._dropped, 0
        counts = self._tally.take()
        if not taken and not counts:
            return
        audit_events = merged(taken)
        if dropped:
            note = AuditEvent("audit-overflow", outcome=Outcome.REFUSED, details={"count": dropped})
            audit_events.append((self._clock(), note))
        while audit_events or counts:
            some, audit_events = audit_events[:MOST_AT_ONCE], audit_events[MOST_AT_ONCE:]
            try:
                await self._work.run(partial(self._record, some, counts))
            except StoreError as error:
                audit_events = some + audit_events
                log.warning(
                    "audit_waits", failure=type(error).__name__, audit_events=len(audit_events)
                )
                self._waiting = audit_events + self._waiting
                self._tally.give_back(counts)
                return
            counts.clear()  # written

    async def stop(self) -> None:
        """Record what waits, and take the time for it."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self.flush()

    async def _later(self) -> None:
        while self._waiting or self._tally:
            await asyncio.sleep(PAUSE_SECONDS)
            await asyncio.shield(self.flush())

    def _record(
        self,
        audit_events: Sequence[tuple[int, AuditEvent]],
        counts: Mapping[audit_trail.RefusalKey, int],
    ) -> None:
        database = self._work.database
        with database.write() as connection:
            if counts:
                database.serialize(connection, audit_trail.LOCK)
                audit_trail.add_counts(connection, counts)
            ENGINE_CHAIN.record_all(connection, database, audit_events)


def merged(audit_events: Sequence[tuple[int, AuditEvent]]) -> list[tuple[int, AuditEvent]]:
    """Make one event of refusals that differ in nothing but their request; keep all successes."""
    counted: dict[object, tuple[int, AuditEvent, int]] = {}
    for number, (at, deed) in enumerate(audit_events):
        details = {name: value for name, value in deed.details.items() if name != "request"}
        alike = str(replace(deed, details=dict(sorted(details.items()))))
        key: object = number if deed.outcome is Outcome.SUCCESS else alike
        first = counted.get(key)
        counted[key] = (at, deed, 1) if first is None else (*first[:2], first[2] + 1)
    return [
        (at, deed if count == 1 else replace(deed, details={**deed.details, "count": count}))
        for at, deed, count in counted.values()
    ]
