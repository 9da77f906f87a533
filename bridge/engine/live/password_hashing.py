"""Hash passwords off the event loop, in a pool of their own with a short queue.

A flood of attempts fills this queue and no other: health checks, leases and reports go on.
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
"""Places that unknown browsers never take: guessing does not fill the queue for owners."""


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
        """How many computations were begun, for the metrics."""

    async def run(self, work: Callable[[], Result], *, known: bool = True) -> Result:
        """Run one computation; `known`: for a session or a remembered device. Raise `TooBusy`."""
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
        """Let running computations finish and take no more."""
        self._pool.shutdown(wait=True, cancel_futures=True)
