"""
Whose tokens are presented: asked at once where the database is at hand, else together.

Nothing is remembered from one request to the next but when a token's use was last noted: a token
that was revoked, on whatever node, is refused at once.
"""

from collections.abc import Callable, Sequence

from bridge.engine.live.batcher import Batcher
from bridge.engine.live.database_executor import DatabaseExecutor
from bridge.engine.service.accounts import tokens
from bridge.engine.service.caller import Caller

MOST_TOGETHER = 200


class TokenAuthenticator:
    """Tells who presents a token."""

    def __init__(self, work: DatabaseExecutor, clock: Callable[[], int]) -> None:
        self._work = work
        self._clock = clock
        self._reader = work.database.reader()
        self._parties = Batcher[str, Caller | None](self._read, MOST_TOGETHER)
        self._used: dict[int, int] = {}

    async def bearer(self, secret: str) -> Caller | None:
        """Return whoever a token belongs to, and note once a minute that it is used."""
        if self._reader.is_local:
            caller = self._asked([secret])[0]
        else:
            caller = await self._parties.give(secret)
        now = self._clock()
        if caller is not None and now - self._used.get(caller.token_id, 0) >= (
            tokens.USE_RECORDED_EVERY_MS
        ):
            self._used[caller.token_id] = now
            token_id = caller.token_id
            await self._work.run(lambda: self._record_use(token_id, now))
        return caller

    async def _read(self, secrets: Sequence[str]) -> list[Caller | None]:
        return await self._work.run(lambda: self._asked(secrets))

    def _asked(self, secrets: Sequence[str]) -> list[Caller | None]:
        return tokens.authenticate_all(self._reader, secrets, self._clock())

    def close(self) -> None:
        """Ask no more."""
        self._reader.close()

    def _record_use(self, token_id: int, now: int) -> None:
        # Not a change of any report: nobody is woken for it.
        with self._work.database.write() as connection:
            tokens.record_use(connection, token_id, now)
