"""
Authenticates access tokens: at once if a database connection is free, otherwise in batches.

Results are not cached, so a token that was revoked on any node is refused at once. Only the time at
which the use of a token was last recorded is remembered.
"""

from collections.abc import Callable, Sequence

from bridge.engine.live.batcher import Batcher
from bridge.engine.live.database_executor import DatabaseExecutor
from bridge.engine.service.accounts import tokens
from bridge.engine.service.caller import Caller

MOST_TOGETHER = 200


class TokenAuthenticator:
    """Finds the bearers of access tokens."""

    def __init__(self, executor: DatabaseExecutor, clock: Callable[[], int]) -> None:
        self._executor = executor
        self._clock = clock
        self._reader = executor.database.reader()
        self._batcher = Batcher[str, Caller | None](self._read, MOST_TOGETHER)
        self._used: dict[int, int] = {}

    async def bearer(self, secret: str) -> Caller | None:
        """Return the bearer of a token, and record once a minute that the token is used."""
        if self._reader.is_local:
            caller = self._authenticate([secret])[0]
        else:
            caller = await self._batcher.submit(secret)
        now = self._clock()
        if caller is not None and now - self._used.get(caller.token_id, 0) >= (
            tokens.USE_RECORDED_EVERY_MS
        ):
            self._used[caller.token_id] = now
            token_id = caller.token_id
            await self._executor.run(lambda: self._record_use(token_id, now))
        return caller

    async def _read(self, secrets: Sequence[str]) -> list[Caller | None]:
        return await self._executor.run(lambda: self._authenticate(secrets))

    def _authenticate(self, secrets: Sequence[str]) -> list[Caller | None]:
        return tokens.authenticate_all(self._reader, secrets, self._clock())

    def close(self) -> None:
        """Close the database reader."""
        self._reader.close()

    def _record_use(self, token_id: int, now: int) -> None:
        # No report changes, so no waiter is notified.
        with self._executor.database.write() as connection:
            tokens.record_use(connection, token_id, now)
