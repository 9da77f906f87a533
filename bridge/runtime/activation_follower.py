"""
Activation follower: applies mappings and connections that were activated on any node.

All nodes use the active versions within two seconds. If a version cannot be compiled on this node,
the previous one stays in use.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import structlog

from bridge.errors import BridgeError
from bridge.executors import Threads
from bridge.redaction import describe
from bridge.runtime.schedule import Job, Schedule, ServicePart
from bridge.store.database import Database
from bridge.store.errors import StoreError
from bridge.store.records import mapping_versions
from mappings.language.diagnostics import MappingError

RETRY_SECONDS = 5.0  # seconds until a channel that did not start is started again

Compiled = TypeVar("Compiled")


class ActivationFollower(Generic[Compiled]):
    """Looks for new activations; compiles on a thread, applies on the event loop."""

    def __init__(
        self,
        database: Database,
        known: int,
        compile_all: Callable[[], Compiled],
        adopt: Callable[[Compiled], Awaitable[None]],
        has_failures: Callable[[], object],
    ) -> None:
        """
        `compile_all` compiles the active versions; `known` is the last activation applied so far.

        While `has_failures` returns a true value, the versions are applied again periodically.
        """
        self._log = structlog.get_logger("mappings")
        self._database = database
        self._compile = compile_all
        self._adopt = adopt
        self._known = known
        self._has_failures = has_failures
        self._again_at = 0.0

    def part(self, schedule: Schedule, job: Job) -> ServicePart:
        """Return the periodic job that looks for activations."""
        return schedule.periodic(job, self._look)

    async def _look(self) -> None:
        latest = await Threads.MAINTENANCE.run(latest_activation, self._database)
        now = asyncio.get_running_loop().time()
        again = bool(self._has_failures()) and now >= self._again_at
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
            self._again_at = now + RETRY_SECONDS
            if latest != self._known:
                self._log.info("adopted", activation=latest)
        self._known = latest


def latest_activation(database: Database) -> int:
    """Return the number of the last activation; a compilation after this call includes it."""
    with database.read() as connection:
        return mapping_versions.latest_activation_id(connection)
