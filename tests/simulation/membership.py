"""
Membership of a simulated node: its heartbeat lock, and its takeover of failed nodes.

Nodes read the locks with the product's statements, and take over by `Failover`.
"""

import asyncio
import sqlite3

from bridge.executors import Threads
from bridge.queue.failover import Failover
from bridge.queue.inbox import Inbox
from bridge.queue.outbox import Outbox
from bridge.runtime.membership import LATE_SECONDS
from bridge.store.errors import StoreError
from bridge.store.postgresql.dedicated_connections import POLL_SECONDS, Heartbeat
from tests.simulation.lock_server import LockServer
from tests.simulation.node import Node

FAILOVER_SECONDS = 2.0
"""As `Job.FAILOVER`."""


class Membership:
    def __init__(self, node: Node, server: LockServer) -> None:
        self._node, self._server = node, server
        self._heartbeat = Heartbeat(node.timer)
        self.session = self._heartbeat.session
        database = node.database
        self._failover = Failover(
            database,
            Inbox(database, node.name),
            Outbox(database, node.name),
            (node.name,),
            clock=node.timer,
        )

    async def start(self) -> None:
        present = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().create_task(self._hold(present))
        await present
        self._node.every(FAILOVER_SECONDS, self._take_over)

    async def _take_over(self) -> None:
        take_over = self._failover.requeue_claims_of_failed_nodes
        if count := await Threads.LEASES.run(take_over, self._node.clock()):
            self._node.world.note(f"{self._node.name} took over {count}")

    async def _hold(self, present: "asyncio.Future[None]") -> None:
        """As `Presence`, whose thread waits in the same places."""
        while True:
            try:
                session = await Threads.LEASES.run(self._connect)
                wait = max(0.0, LATE_SECONDS - self._server.age)
                self._heartbeat.begin_session(self._node.timer() + wait)
                while True:
                    asked_at = self._node.timer()
                    if await Threads.LEASES.run(self._ask, session):
                        self._heartbeat.confirm(asked_at)
                        if not present.done():
                            present.set_result(None)
                    await asyncio.sleep(POLL_SECONDS)
            except (StoreError, sqlite3.Error):
                await asyncio.sleep(POLL_SECONDS)

    def _connect(self) -> str:
        self._node.link.require()
        return self._server.connect()

    def _ask(self, session: str) -> bool:
        self._node.link.require()
        return self._server.try_lock(self._node.name, session)
