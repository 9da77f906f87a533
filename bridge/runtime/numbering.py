"""Keep the console's index of numbers up with the inbox, on a thread, while the service runs."""

import asyncio

import structlog

from bridge.console.indexing import Indexer
from bridge.observability.redaction import describe
from bridge.runtime.step import Step, now_ms
from bridge.store.database import Database

EVERY = 1.0  # seconds


class Numbering:
    """Looks every second; what fails is tried the next time."""

    def __init__(self, database: Database) -> None:
        self._log = structlog.get_logger("console")
        self._indexer = Indexer(database, now_ms)
        self._task: asyncio.Task[None] | None = None

    def part(self) -> Step:
        """Give its start and stop."""
        return Step("index of numbers", self._start, self._stop)

    async def _start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="numbering")

    async def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                await asyncio.to_thread(self._indexer.catch_up)
            except Exception as error:  # noqa: BLE001  # the next time it may go well
                self._log.error("numbers not indexed", error=describe(error))
            await asyncio.sleep(EVERY)
