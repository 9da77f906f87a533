"""Hand on, every few seconds and at the end, which codes messages had and no table has."""

import asyncio

import structlog

from bridge.executors import Threads
from bridge.intake.missing import Tally
from bridge.observability.redaction import describe
from bridge.runtime.step import Chore, Step, now_ms
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

    def part(self) -> Step:
        """Give its start and stop."""
        return Chore("unknown codes", self._run, self._hand_on).part()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(EVERY)
            await self._hand_on()

    async def _hand_on(self) -> None:
        found = self._tally.take()
        if not found:
            return
        try:
            await Threads.MAINTENANCE.run(unknown_codes.add, self._database, found, now_ms())
        except StoreError as error:
            self._log.warning("unknown codes not counted", error=describe(error))
