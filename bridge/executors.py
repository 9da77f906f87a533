"""
The thread pools of a process, and limits for kinds of work that share one.

A task of the event loop passes blocking work to a pool. Asyncio's default executor resolves host
names and nothing else. Each pool has few threads and a bounded queue. If the queue is full, `run`
raises PoolFull at once. `serve` ends all pools with `close_all`.
"""

import asyncio
import contextvars
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from enum import Enum
from functools import partial
from typing import ParamSpec, TypeVar

from bridge.errors import BridgeError

P = ParamSpec("P")
T = TypeVar("T")


class PoolFull(BridgeError):
    """The queue of a pool is full; retry later."""

    def __init__(self, name: str) -> None:
        super().__init__(f"too much work waits: {name}")


class Threads(Enum):
    """
    A thread pool: name, number of threads, and length of the queue.

    A kind of work that may occupy threads for long has a `ThreadLimit`, where it is used. A pool
    has at least as many threads as its limits together, so no kind waits for another.
    """

    MESSAGE_LOG = ("message log", 1, 100)
    """Writes of the message log, in order. Nothing else may delay an acknowledgment."""
    MESSAGES = ("messages", 12, 10_000)
    """Claims, work and outcomes of messages and deliveries: short reads and transactions."""
    LEASES = ("leases", 7, 1000)
    """What must be in time while all else is slow: leases, pauses, `/readyz`, checkpoints."""
    EXTERNAL = ("external", 20, 10_000)
    """What senders, hooks and network folders can make slow, and checks before an ACK."""
    JOBS = ("jobs", 4, 100)
    """Periodic jobs, starts and ends of parts: they may take minutes, and nobody waits for them."""
    WEB = ("web", 16, 64)
    """Requests to the console and the engine, outside of the engine's database."""

    def __init__(self, label: str, size: int, waiting: int) -> None:
        self.label = label
        self.size = size
        self.waiting = waiting
        self._pending = 0  # running or waiting; changed on the event loop's thread only
        self._executor: ThreadPoolExecutor | None = None

    async def run(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run blocking work on a thread of this pool. Raises PoolFull and what the work raises."""
        if self._pending >= self.size + self.waiting:
            raise PoolFull(self.label)
        self._pending += 1
        try:
            return await self.start(work, *args, **kwargs)
        finally:
            self._pending -= 1

    def start(
        self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]:
        """Start blocking work whose amount the caller limits."""
        call = partial(contextvars.copy_context().run, work, *args, **kwargs)
        return asyncio.get_running_loop().run_in_executor(self.executor, call)

    @property
    def executor(self) -> ThreadPoolExecutor:
        """The executor, created on first use."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self.size, self.label)
        return self._executor

    def close(self) -> None:
        """Finish running work, cancel waiting work, and end the threads. Blocking."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=True, cancel_futures=True)


class _Places:
    """The places of a limit in one event loop, to which its semaphore belongs."""

    def __init__(self, loop: asyncio.AbstractEventLoop, at_once: int, waiting: int) -> None:
        self.loop = loop
        self.occupied = asyncio.Semaphore(at_once)
        self.free = at_once + waiting

    def leave(self) -> None:
        self.occupied.release()
        self.free += 1


class ConcurrencyLimit:
    """Permits `at_once` tasks of the event loop; `waiting` more wait, and others raise PoolFull."""

    def __init__(self, name: str, at_once: int, waiting: int) -> None:
        self._name = name
        self._sizes = at_once, waiting
        self._latest: _Places | None = None

    @property
    def free(self) -> int:
        """Number of tasks that may still enter or wait."""
        return self._places().free

    @asynccontextmanager
    async def entered(self) -> AsyncIterator[None]:
        """Wait for a place, and occupy it while the context is open. Raises PoolFull."""
        places = await self._enter()
        try:
            yield
        finally:
            places.leave()

    def _places(self) -> _Places:
        loop = asyncio.get_running_loop()
        if self._latest is None or self._latest.loop is not loop:
            self._latest = _Places(loop, *self._sizes)
        return self._latest

    async def _enter(self) -> _Places:
        places = self._places()
        if places.free <= 0:
            raise PoolFull(self._name)
        places.free -= 1
        try:
            await places.occupied.acquire()
        except BaseException:
            places.free += 1
            raise
        return places


class ThreadLimit(ConcurrencyLimit):
    """At most `at_once` threads of a pool, for one kind of work; `waiting` more calls wait."""

    def __init__(self, threads: Threads, name: str, at_once: int, waiting: int) -> None:
        super().__init__(name, at_once, waiting)
        self._threads = threads

    async def run(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """
        Run blocking work on a thread. Raises PoolFull and what the work raises.

        The work keeps its place until it ends, also if the caller is cancelled before.
        """
        places = await self._enter()
        try:
            running = self._threads.start(work, *args, **kwargs)
        except BaseException:
            places.leave()
            raise
        running.add_done_callback(lambda _: places.leave())
        return await asyncio.shield(running)


DELIVERIES = ThreadLimit(Threads.MESSAGES, "deliveries", 6, 10_000)
"""For claims, work and outcomes of deliveries: fifty destinations must not stop the inbox."""
SLOW_MAPPINGS = ThreadLimit(Threads.EXTERNAL, "hooks", 8, 10_000)
"""For messages with hooks or slow patterns, received or composed."""
CONSOLE_THREADS = ThreadLimit(Threads.WEB, "console", 6, 64)
"""For reads and changes of the console."""


def set_outcome(future: asyncio.Future[T], outcome: T | BaseException) -> None:
    """Set the result or the exception of a future, unless it is done or was cancelled."""
    if future.done():
        return
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def close_all() -> None:
    """End all pools. Blocking."""
    for thread in Threads:
        thread.close()
