"""
Checks of credentials off the event loop: access tokens and password hashes.

Results are not cached, so a token that was revoked on any node is refused at once. Few password
hashes are computed at once, and few wait, so a flood of sign-in attempts delays no other request.
"""

from collections.abc import Callable
from typing import Final, TypeVar

from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.live.database_executor import DatabaseExecutor
from bridge.engine.service.accounts import tokens
from bridge.engine.service.caller import Caller
from bridge.executors import ThreadLimit, Threads


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


class PasswordHashing:
    """Runs hash computations; refuses more than the queue holds."""

    def __init__(self) -> None:
        self._limit = ThreadLimit(Threads.WEB, "sign-in", THREADS, MAX_WAITING)
        self.computed = 0
        """The number of computations started, for the metrics."""

    async def run(self, work: Callable[[], Result], *, known: bool = True) -> Result:
        """
        Run one computation; raise `sign_in_busy` if the queue is full.

        `known`: the attempt has a proof that only the owner has, so it may use a reserved place.
        """
        if self._limit.free <= (0 if known else RESERVED):
            raise EngineError(ErrorCode.SIGN_IN_BUSY)
        self.computed += 1
        return await self._limit.run(work)
