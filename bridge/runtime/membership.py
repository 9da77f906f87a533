"""
One process among others on the same database: seen by them, woken by them, heir to them.

What to do when woken is handed in. On SQLite none of this is needed, and nothing runs.
"""

import asyncio
from collections.abc import Callable

import structlog

from bridge.executors import Threads
from bridge.queue.failover import Failover
from bridge.queue.inbox import Inbox
from bridge.queue.outbox import Outbox
from bridge.queue.wakeup import CHANNEL
from bridge.runtime.schedule import Job, Schedule, ServicePart, now_ms
from bridge.store.database import Database
from bridge.store.postgresql.notifications import NotificationListener
from bridge.store.presence import Presence

Wake = Callable[[], None]


class Membership:
    """`owners` are the names under which this process claims; `jobs`: it may do those, too."""

    def __init__(
        self, database: Database, owners: tuple[str, ...], schedule: Schedule, *, jobs: bool
    ) -> None:
        self._log = structlog.get_logger("nodes")
        self.may_lead = jobs
        self._database = database
        self._presence = Presence(database, owners, "bridge" if jobs else "")
        name = owners[0]
        self._heirs = Failover(database, Inbox(database, name), Outbox(database, name), owners)
        self._listener: NotificationListener | None = None
        self._wakes: list[Wake] = []
        self._looking = schedule.periodic(Job.FAILOVER, self._look)

    def leads(self) -> bool:
        """Tell whether the jobs that one process does for all are ours."""
        return self._presence.is_leader

    def wakes(self, wake: Wake) -> None:
        """Call `wake`, on the loop's thread, when there may be something to claim."""
        self._wakes.append(wake)

    def part(self) -> ServicePart:
        """Give its start and stop; it must be started before anything is claimed."""
        return ServicePart("presence", self._appear, self._vanish)

    async def _appear(self) -> None:
        await Threads.LEASES.run(self._presence.start)
        if self._database.dialect != "postgresql":
            return
        loop = asyncio.get_running_loop()
        self._listener = NotificationListener(
            self._database, CHANNEL, lambda: _soon(loop, self._wake)
        )
        self._listener.start()
        await self._looking.start()

    async def _vanish(self) -> None:
        await self._looking.stop()
        if self._listener is not None:
            await Threads.LEASES.run(self._listener.stop)
        await Threads.LEASES.run(self._presence.stop)

    async def _look(self) -> None:
        if count := await Threads.LEASES.run(self._heirs.requeue_claims_of_failed_nodes, now_ms()):
            self._log.warning("took over from a node that died", count=count)
            self._wake()

    def _wake(self) -> None:
        for wake in self._wakes:
            wake()


def _soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(call)
