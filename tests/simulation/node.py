"""
A node of the simulated world: the product's queue code on a simulated event loop.

A node can be killed and started again, frozen, and cut off from the database. Its clock can be
set. Stories add the product's parts that run on it.
"""

import asyncio
import sqlite3
import zlib
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from typing import Any

from bridge.store.errors import StoreError
from tests.simulation.lock_server import LockServer
from tests.simulation.plans import Fault, FaultKind, Plan
from tests.simulation.storage import Storage
from tests.simulation.world import EPOCH_MS, SimulatedLoop, World

JUMP_MS = 3_600_000
"""A clock is set by an hour."""

RESTART_SECONDS = 1.0
RETRY_SECONDS = 1.0


class Node:
    """One process. `begin` starts its parts on a new loop."""

    def __init__(
        self,
        world: World,
        storage: Storage,
        number: int,
        begin: "Begin",
        server: LockServer | None = None,
    ) -> None:
        """With `server` the node is one of a cluster on PostgreSQL."""
        self.name = f"node-{number}"
        self.world, self._server = world, server
        databases = storage.databases if server is None else storage.clustered
        self.link, self.database = storage.links[number], databases[number]
        self.link.is_up = lambda: world.now >= self._cut_until
        self.link.on_lost = lambda: world.note(f"{self.name}: committed, answer lost")
        self.random = Random(zlib.crc32(f"{self.name} {world.random.random()}".encode()))
        self.on_call: Callable[[Node], None] = lambda _: None
        self._begin = begin
        self._offset_ms = 0
        self._cut_until = 0.0
        self._loop: SimulatedLoop | None = None
        self.parts: Any = None
        self.start()

    def clock(self) -> int:
        return EPOCH_MS + self._offset_ms + round(self.world.now * 1000)

    def timer(self) -> float:
        """Return the monotonic clock in seconds."""
        return self.world.now

    @property
    def loop(self) -> SimulatedLoop | None:
        """The event loop; None while the process does not run."""
        return self._loop

    def start(self) -> None:
        """Start the process, with connections of its own."""
        self.database.dispose()
        self._loop = loop = self.world.loop(self.name)
        loop.on_blocking = self._blocking
        loop.call_soon(lambda: self._begin(self))

    def _blocking(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        finally:
            self.on_call(self)

    def kill(self, seconds: float) -> None:
        """End the process now; start it again after some seconds."""
        if self._loop is None:
            return
        self._loop.close()
        self._loop, self.parts = None, None
        if self._server is not None:
            self._server.end(self.name)
        peers = self.world.peers
        peers.call_later(seconds + RESTART_SECONDS, self.start)

    def freeze(self, seconds: float) -> None:
        """Run no callback for some seconds."""
        if self._loop is not None:
            self._loop.frozen_until = max(self._loop.frozen_until, self.world.now + seconds)

    def cut(self, seconds: float) -> None:
        self._cut_until = max(self._cut_until, self.world.now + seconds)

    def set_clock(self, milliseconds: int) -> None:
        self._offset_ms += milliseconds

    def every(self, seconds: float, job: Callable[[], Awaitable[object]]) -> None:
        """Run a job periodically, as `bridge.runtime.schedule` does: errors do not end it."""
        assert self._loop is not None
        self._loop.create_task(_repeat(seconds, job))

    async def persist(self, action: Callable[[], Awaitable[object]]) -> None:
        """Repeat an action until the database is available."""
        while True:
            try:
                await action()
            except StoreError:
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return


Begin = Callable[[Node], object]


async def _repeat(seconds: float, job: Callable[[], Awaitable[object]]) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            await job()
        except StoreError:
            continue


class Faults:
    def __init__(
        self,
        world: World,
        storage: Storage,
        nodes: list[Node],
        on_restore: Callable[[sqlite3.Connection], None],
        server: LockServer | None,
    ) -> None:
        """`on_restore` is called with an earlier state before the database is replaced by it."""
        self._world, self._storage, self._nodes = world, storage, nodes
        self._on_restore = on_restore
        self._server = server
        self.healed_at = 0.0
        """When the last fault ends, in seconds."""
        self.peer_down_until = 0.0
        self.failed_over_at = float("-inf")

    def plan(self, plan: Plan) -> None:
        for fault in plan.faults:
            self._world.at_step(fault.step, partial(self._begin, fault))

    def _begin(self, fault: Fault) -> None:
        node, world = self._nodes[fault.node % len(self._nodes)], self._world
        self.healed_at = max(self.healed_at, world.now + fault.seconds + RESTART_SECONDS)
        match fault.kind:
            case FaultKind.KILL:
                node.kill(fault.seconds)
            case FaultKind.FREEZE:
                node.freeze(fault.seconds)
            case FaultKind.PARTITION:
                node.link.lose_answer = False
                node.cut(fault.seconds)
            case FaultKind.LOST_ANSWER:
                node.link.lose_answer = True
            case FaultKind.CLOCK_FORWARD:
                node.set_clock(JUMP_MS)
            case FaultKind.CLOCK_BACK:
                node.set_clock(-JUMP_MS)
            case FaultKind.PEER_DOWN:
                self.peer_down_until = world.now + fault.seconds
            case FaultKind.FAILOVER:
                copy = self._storage.copy()
                later = world.steps + fault.lag_steps
                world.at_step(later, partial(self._fail_over, copy))
                return
        world.fault(fault.kind, f"{node.name} {fault.seconds} s")

    def _fail_over(self, copy: sqlite3.Connection) -> None:
        self.failed_over_at = self._world.now
        for node in self._nodes:
            node.link.lose_answer = False
            node.cut(RESTART_SECONDS)
        if self._server is not None:
            self._server.lose(copy)
        self._on_restore(copy)
        self._storage.restore(copy)
        copy.close()
        self._world.fault(FaultKind.FAILOVER)
