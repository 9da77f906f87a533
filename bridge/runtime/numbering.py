"""
Keep the console's index of numbers up with the inbox, on a thread, while the service runs.

Gives way to a rush of arrivals (`bridge.console.pacing`).
"""

import asyncio
import time
from collections.abc import Sequence
from functools import partial

import structlog

from bridge.console.indexing import Indexer
from bridge.console.numbers import hashes
from bridge.console.ownership import Belonging
from bridge.console.pacing import EVERY, Look, batch, pause, rate
from bridge.executors import Threads
from bridge.observability.redaction import describe
from bridge.runtime.step import Chore, Step, now_ms
from bridge.store.database import Database
from bridge.workers.errors import WorkerError
from bridge.workers.offload import LARGE, Offload


class Numbering:
    """Reads a batch, waits; what fails is tried the next time."""

    def __init__(self, database: Database, belonging: Belonging, offload: Offload) -> None:
        """Read the numbers of large messages by `offload`."""
        self._log = structlog.get_logger("console")
        self._indexer = Indexer(database, belonging, now_ms, partial(_numbered, offload))
        self._look: Look | None = None
        self._rate = 0.0  # messages a second

    def part(self) -> Step:
        """Give its start and stop."""
        return Chore("index of numbers", self._run).part()

    async def _run(self) -> None:
        while True:
            try:
                wait = await Threads.MAINTENANCE.run(self._batch)
            except Exception as error:  # noqa: BLE001  # the next time it may go well
                self._log.error("numbers not indexed", error=describe(error))
                wait = EVERY
            await asyncio.sleep(wait)

    def _batch(self) -> float:
        began, most = time.monotonic(), batch(self._rate)
        read = self._indexer.step(most)
        took = time.monotonic() - began
        before, now = self._look, Look(time.monotonic(), self._indexer.newest())
        self._look, self._rate = now, rate(before, now) if before else 0.0
        return pause(self._rate, took, full=read >= most)


def _numbered(offload: Offload, payload: bytes) -> Sequence[int]:
    """Read a message's numbers; none where the worker process could not read it."""
    if len(payload) < LARGE:
        return hashes(payload)
    try:
        found: list[int] = offload.run(hashes, payload)
    except WorkerError:
        return ()
    return found
