"""Move audit events from the bridge's outbox to the chain, while the service runs."""

import asyncio

import structlog

from bridge.executors import Threads
from bridge.observability.redaction import describe
from bridge.runtime.step import Chore, Step
from bridge.store.errors import StoreError
from bridge.wiring.audit_relay import AuditRelay

EVERY = 1.0  # seconds


class AuditRelaying:
    """What cannot be moved stays in the outbox and is tried again."""

    def __init__(self, relay: AuditRelay) -> None:
        self._log = structlog.get_logger("audit")
        self._relay = relay

    def part(self) -> Step:
        """Give its start and stop."""
        return Chore("audit relay", self._run, self._stop).part()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(EVERY)
            await self._move()

    async def _stop(self) -> None:
        await self._move()
        self._relay.close()

    async def _move(self) -> None:
        try:
            await Threads.MAINTENANCE.run(self._relay.relay)
        except StoreError as error:
            self._log.warning("audit events wait in the outbox", error=describe(error))
