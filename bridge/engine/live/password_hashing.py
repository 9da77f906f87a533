"""
Password hashing off the event loop, in its own thread pool with a short queue.

A flood of sign-in attempts fills only this queue: health checks, leases and reports are not
delayed.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from bridge.engine.errors import EngineError

Result = TypeVar("Result")

THREADS: Final = 2
MOST_WAITING: Final = 16
RESERVED: Final = 6
"""Places in the queue for known browsers, so that guessing does not fill it for owners."""


class TooBusy(EngineError):  # noqa: N818  # named for what happened
    """Too many passwords are being hashed; the same request may succeed later."""

    status = 503
    code = "sign_in_busy"
    text = "too many people sign in at this moment; try again"
    retryable = True


class HashingPool:
    """Runs hash computations; refuses more than the queue holds."""

    def __init__(self, threads: int = THREADS, waiting: int = MOST_WAITING) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="sign-in")
        self._free = threads + waiting
        self.computed = 0
        """The number of computations started, for the metrics."""

    async def run(self, work: Callable[[], Result], *, known: bool = True) -> Result:
        """Run one computation; `known`: for a session or a known device. Raise `TooBusy`."""
        if self._free <= (0 if known else RESERVED):
            raise TooBusy
        self._free -= 1
        self.computed += 1
        running = asyncio.get_running_loop().run_in_executor(self._pool, work)
        running.add_done_callback(lambda _: self._release())
        return await asyncio.shield(running)

    def _release(self) -> None:
        self._free += 1

    def close(self) -> None:
        """Wait for running computations and accept no more."""
        self._pool.shutdown(wait=True, cancel_futures=True)
