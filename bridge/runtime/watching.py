"""Recurring housekeeping of one process: alerts, and what retention removes."""

import asyncio
import socket
from collections.abc import Callable
from functools import partial

import structlog

from bridge.executors import Threads
from bridge.observability.metrics import Metrics
from bridge.observability.redaction import describe
from bridge.operations.node_files import Place
from bridge.runtime.step import Chore, Step, now_ms
from bridge.store.database import Database
from bridge.store.partitions import make_room
from bridge.wiring.pruning import prune_home
from bridge.wiring.watching import note_own_files, watch
from config import Settings

ROOM_EVERY = 30.0
"""Seconds between looks whether messages need another partition; half of one is free by then."""

DAY = 86_400_000
"""Milliseconds for which what is old may wait to be removed with all of its partition."""


class Housekeeping:
    """Looks, and tidies up, every so often; what fails is tried the next time."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        metrics: Metrics,
        leads: Callable[[], bool],
        node: str,
    ) -> None:
        """`leads` tells whether it is for this process to do, among all that share a database."""
        self._log = structlog.get_logger("operations")
        self._settings = settings
        self._leads = leads
        self._database = database
        self._watch = watch(settings, database, metrics, now_ms, _place(node))

    def part(self) -> Step:
        """Give its start and stop."""
        return Chore("housekeeping", self._run).part()

    async def _run(self) -> None:
        kept = self._settings.retention
        jobs: list[tuple[str, float, Callable[[], object]]] = [
            ("alerts", self._settings.alerts.every, self._watch.look),
            ("partitions", ROOM_EVERY, partial(make_room, self._database)),
        ]
        if kept.keep or kept.max_size:
            jobs.append(("retention", kept.every, self._prune))
        await asyncio.gather(*(self._repeat(*job) for job in jobs))

    async def _repeat(self, job: str, every: float, work: Callable[[], object]) -> None:
        while True:
            await asyncio.sleep(every)
            if self._leads():
                await _attempt(job, work)

    def _prune(self) -> None:
        kept = self._settings.retention
        counts = prune_home(
            self._settings,
            kept.keep or None,
            max_size=kept.max_size,
            patience=DAY,
            archive=None if kept.archive is None else self._settings.path(kept.archive),
        )
        self._log.info("pruned", count=sum(counts.values()))


class OwnFiles:
    """Writes down what this node sees of its own, unless it watches for all itself."""

    def __init__(
        self, settings: Settings, database: Database, leads: Callable[[], bool], node: str
    ) -> None:
        """`leads` tells whether this process watches for all."""
        self._every = settings.alerts.every
        self._leads = leads
        self._note = note_own_files(settings, database, now_ms, _place(node))

    def part(self) -> Step:
        """Give its start and stop."""
        return Chore("own files", self._run).part()

    async def _run(self) -> None:
        while True:
            if not self._leads():
                await _attempt("own files", self._note)
            await asyncio.sleep(self._every)


def _place(node: str) -> Place:
    return Place(node, socket.gethostname())


async def _attempt(job: str, work: Callable[[], object]) -> None:
    try:
        await Threads.MAINTENANCE.run(work)
    except Exception as error:  # noqa: BLE001  # the next time it may go well
        structlog.get_logger("operations").error("not done", job=job, error=describe(error))
