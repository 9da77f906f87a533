"""Hand on, every few seconds and at the end, which codes messages had and no table has."""

import asyncio

import structlog

from bridge.intake.missing import Tally
from bridge.observability.redaction import describe
from bridge.runtime.step import Step, now_ms
from bridge.store import unknown_codes
from bridge.store.database import Database
from bridge.store.errors import StoreError

EVERY = 5.0  # seconds


class Tallying:
    """What cannot be written is lost: it is a count, and no message."""

    def __init__(self, database: Database, tally: Tally) -> None:
        self._log = structlog.get_logger("mappings")
        self._database = database
        self._tally = tally
        self._task: asyncio.Task[None] | None = None

    def part(self) -> Step:
        """Give its start and stop."""
        return Step("unknown codes", self._start, self._stop)

    async def _start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="unknown codes")

    async def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._hand_on()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(EVERY)
            await self._hand_on()

    async def _hand_on(self) -> None:
        found = self._tally.take()
        if not found:
            return
        try:
            await asyncio.to_thread(unknown_codes.add, self._database, found, now_ms())
        except StoreError as error:
            self._log.warning("unknown codes not counted", error=describe(error))
