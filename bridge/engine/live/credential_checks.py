"""
Checks of credentials off the event loop: access tokens and password hashes.

Results are not cached, so a token that was revoked on any node is refused at once. Password hashes
have their own thread pool with a short queue, so a flood of sign-in attempts delays no other
request.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.live.database_executor import DatabaseExecutor
from bridge.engine.service.accounts import tokens
from bridge.engine.service.caller import Caller


class TokenAuthenticator:
    """Finds the bearers of access tokens."""

    def __init__(self, executor: DatabaseExecutor, clock: Callable[[], int]) -> None:
        self._executor = executor
        self._clock = clock
        self._use_recorded_at: dict[int, int] = {}

    async def bearer(self, secret: str) -> Caller | None:
        """Return the bearer of a token, and record once a minute that the token is used."""
        now = self._clock()
        caller = await self._executor.read(
            lambda connection: tokens.authenticate(connection, secret, now)
        )
        if caller is not None and now - self._use_recorded_at.get(caller.token_id, 0) >= (
            tokens.USE_RECORDED_EVERY_MS
        ):
            self._use_recorded_at[caller.token_id] = now
            token_id = caller.token_id
            await self._executor.run(lambda: self._record_use(token_id, now))
        return caller

    def _record_use(self, token_id: int, now: int) -> None:
        # No report changes, so no waiter is notified.
        with self._executor.database.write() as connection:
            tokens.record_use(connection, token_id, now)


Result = TypeVar("Result")

THREADS: Final = 2
MAX_WAITING: Final = 16
RESERVED: Final = 6
"""Places in the queue for known browsers, so that guessing does not fill it for owners."""


class HashingPool:
    """Runs hash computations; refuses more than the queue holds."""

    def __init__(self, threads: int = THREADS, waiting: int = MAX_WAITING) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="sign-in")
        self._free = threads + waiting
        self.computed = 0
        """The number of computations started, for the metrics."""

    async def run(self, work: Callable[[], Result], *, known: bool = True) -> Result:
        """
        Run one computation; raise `sign_in_busy` if the queue is full.

        `known`: the attempt has a proof that only the owner has, so it may use a reserved place.
        """
        if self._free <= (0 if known else RESERVED):
            raise EngineError(ErrorCode.SIGN_IN_BUSY)
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
