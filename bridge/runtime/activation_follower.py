"""Follow activations: whichever node something was activated on, this one goes on with it.

What cannot be compiled here leaves in force what was. The database is the truth, and looked at
often enough that all nodes agree within two seconds.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import structlog

from bridge.errors import BridgeError
from bridge.executors import Threads
from bridge.redaction import describe
from bridge.runtime.schedule import Job, Schedule, Step
from bridge.store.database import Database
from bridge.store.errors import StoreError
from bridge.store.records import mapping_versions
from mappings.language.errors import MappingError

TRY_AGAIN = 5.0  # seconds: a port may be free by then, a file be there

Compiled = TypeVar("Compiled")


class Following(Generic[Compiled]):
    """Looks for new activations; compiles on a thread, adopts on the loop."""

    def __init__(
        self,
        database: Database,
        known: int,
        compile_all: Callable[[], Compiled],
        adopt: Callable[[Compiled], Awaitable[None]],
        troubled: Callable[[], object],
    ) -> None:
        """
        `compile_all` gives what is in force; what it gave first came after `known`.

        `troubled` tells whether something could not begin here: then it is adopted once more.
        """
        self._log = structlog.get_logger("mappings")
        self._database = database
        self._compile = compile_all
        self._adopt = adopt
        self._known = known
        self._troubled = troubled
        self._again_at = 0.0

    def part(self, schedule: Schedule, job: Job) -> Step:
        """Give the job that looks for activations."""
        return schedule.periodic(job, self._look)

    async def _look(self) -> None:
        latest = await Threads.MAINTENANCE.run(latest_activation, self._database)
        now = asyncio.get_running_loop().time()
        again = bool(self._troubled()) and now >= self._again_at
        if latest == self._known and not again:
            return
        try:
            found = await Threads.MAINTENANCE.run(self._compile)
        except StoreError:
            raise
        except (BridgeError, MappingError) as error:
            self._log.error("not adopted", error=describe(error))
        else:
            await self._adopt(found)
            self._again_at = now + TRY_AGAIN
            if latest != self._known:
                self._log.info("adopted", activation=latest)
        self._known = latest


def latest_activation(database: Database) -> int:
    """Give the number of the last activation; what is compiled later holds it, at least."""
    with database.read() as connection:
        return mapping_versions.latest_activation_id(connection)
