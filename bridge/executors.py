"""
The thread pools of a process, one for each purpose, so that no work delays another kind of work.

A task of the event loop passes blocking work to the pool for its purpose. Asyncio's default
executor resolves host names and nothing else. Each pool has few threads and a bounded queue. If the
queue is full, `run` raises PoolFull at once. `serve` ends all pools with `close_all`.
"""

import asyncio
import contextvars
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from enum import Enum
from functools import partial
from typing import ParamSpec, TypeVar
from weakref import WeakSet

from bridge.errors import BridgeError

P = ParamSpec("P")
T = TypeVar("T")


class PoolFull(BridgeError):
    """The queue of a pool is full; retry later."""

    def __init__(self, name: str) -> None:
        super().__init__(f"too much work waits: {name}")


class Threads(Enum):
    """A thread pool: name, number of threads, and length of the queue."""

    HEALTH = ("health", 2, 8)
    LEASES = ("leases", 3, 1000)
    INTAKE = ("intake", 6, 10_000)
    MESSAGE_LOG = ("message log", 1, 100)
    LARGE_ARRIVALS = ("large arrivals", 1, 10_000)
    DELIVERY = ("delivery", 6, 10_000)
    FOLDERS = ("folders", 4, 1000)
    MAINTENANCE = ("maintenance", 4, 100)
    CHECKPOINTS = ("checkpoints", 2, 8)
    CHECKS = ("checks", 2, 16)
    EXPORTS = ("exports", 2, 32)
    BODIES = ("request bodies", 2, 64)
    DOCUMENTS = ("documents", 4, 64)
    CONSOLE = ("console", 4, 64)
    LARGE_FRAMES = ("large frames", 1, 1000)
    HOOKS = ("hooks", 8, 10_000)
    MERGED_PATIENTS = ("merged patients", 1, 1000)

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
        call = partial(contextvars.copy_context().run, work, *args, **kwargs)
        self._pending += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self.executor, call)
        finally:
            self._pending -= 1

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


class ConcurrencyLimit:
    """Permits `at_once` tasks; `waiting` more wait, and others raise PoolFull."""

    def __init__(self, name: str, at_once: int, waiting: int) -> None:
        self._name = name
        self._places = asyncio.Semaphore(at_once)
        self._max_inside = at_once + waiting
        self._inside = 0

    @asynccontextmanager
    async def entered(self) -> AsyncIterator[None]:
        """Wait for a place, and occupy it while the context is open. Raises PoolFull."""
        if self._inside >= self._max_inside:
            raise PoolFull(self._name)
        self._inside += 1
        try:
            async with self._places:
                yield
        finally:
            self._inside -= 1


def set_outcome(future: asyncio.Future[T], outcome: T | BaseException) -> None:
    """Set the result or the exception of a future, unless it is done or was cancelled."""
    if future.done():
        return
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


_SINGLE: WeakSet[ThreadPoolExecutor] = WeakSet()
"""The executors of `single_thread`, for `close_all`."""


def single_thread(label: str) -> ThreadPoolExecutor:
    """Return an executor with one thread, for work that must run in order; `close_all` ends it."""
    created = ThreadPoolExecutor(1, label)
    _SINGLE.add(created)
    return created


def close_all() -> None:
    """End all pools. Blocking."""
    for thread in Threads:
        thread.close()
    for one in list(_SINGLE):
        one.shutdown(wait=True, cancel_futures=True)
