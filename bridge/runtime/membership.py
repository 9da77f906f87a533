"""
Membership of a process in the cluster: the processes that share one PostgreSQL database.

A member holds a heartbeat lock, takes part in the election of the leader, receives notifications,
and requeues the claims of failed nodes. On SQLite there is no cluster: every process leads.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from bridge.engine_client.client import DEADLINE
from bridge.executors import Threads
from bridge.queue.failover import Failover
from bridge.queue.inbox import Inbox
from bridge.queue.outbox import Outbox
from bridge.queue.wakeup import CHANNEL
from bridge.runtime.schedule import Job, Schedule, ServicePart, now_ms
from bridge.store.database import Database
from bridge.store.postgresql.dedicated_connections import (
    GRACE_SECONDS,
    NotificationListener,
    Presence,
)

LATE_SECONDS: Final = GRACE_SECONDS + DEADLINE
"""
Seconds after the loss of a PostgreSQL server in which a node can still act on a claim made there.

The node may begin a call until it notices the loss (GRACE_SECONDS), and then waits for the answer
(DEADLINE).
"""

Wake = Callable[[], None]


class Membership:
    """`owners` are the claim owners of this process; with `jobs` it may become the leader."""

    def __init__(
        self, database: Database, owners: tuple[str, ...], schedule: Schedule, *, jobs: bool
    ) -> None:
        self._log = structlog.get_logger("nodes")
        self.may_lead = jobs
        self._database = database
        late = 0.0 if database.synchronous_commit.is_required else LATE_SECONDS
        self._presence = Presence(database, owners, "bridge" if jobs else "", late_seconds=late)
        name = owners[0]
        self._failover = Failover(database, Inbox(database, name), Outbox(database, name), owners)
        self._listener: NotificationListener | None = None
        self._wakes: list[Wake] = []
        self._failover_job = schedule.periodic(Job.FAILOVER, self._requeue_claims_of_failed_nodes)

    def leads(self) -> bool:
        """True if this process runs the jobs that one process runs for all."""
        return self._presence.is_leader

    def session(self) -> int | None:
        """Return the session of the heartbeat lock; None if it may have lost the lock."""
        return self._presence.session()

    def call_on_wakeup(self, wake: Wake) -> None:
        """Call `wake` on the event loop's thread when there may be something to claim."""
        self._wakes.append(wake)

    def part(self) -> ServicePart:
        """Return the part; it must start before any claim."""
        return ServicePart("presence", self._start, self._stop)

    async def _start(self) -> None:
        await Threads.LEASES.run(self._presence.start)
        if self._database.dialect != "postgresql":
            return
        loop = asyncio.get_running_loop()
        self._listener = NotificationListener(
            self._database, CHANNEL, lambda: _call_soon(loop, self._wake)
        )
        self._listener.start()
        await self._failover_job.start()

    async def _stop(self) -> None:
        await self._failover_job.stop()
        if self._listener is not None:
            await Threads.LEASES.run(self._listener.stop)
        await Threads.LEASES.run(self._presence.stop)

    async def _requeue_claims_of_failed_nodes(self) -> None:
        if count := await Threads.LEASES.run(
            self._failover.requeue_claims_of_failed_nodes, now_ms()
        ):
            self._log.warning("claims of a failed node queued again", count=count)
            self._wake()

    def _wake(self) -> None:
        for wake in self._wakes:
            wake()


def _call_soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(call)
