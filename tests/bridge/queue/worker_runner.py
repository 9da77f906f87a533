"""Runs a worker on a real inbox until a condition is true."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

from bridge.queue.claims import ClaimedMessage, MessageOutcome
from bridge.queue.inbox import Inbox
from bridge.queue.states import QueueEvent, QueueState, RetryPolicy
from bridge.queue.worker import Apply, Worker
from bridge.store.database import Database
from tests.bridge.queue import stored_rows
from tests.bridge.queue.conftest import Intake
from tests.bridge.queue.samples import NOW, arrival
from tests.eventually import PATIENCE

Until = Callable[[], bool]


class WorkerRunner:
    def __init__(self, store: Database, intake: Intake) -> None:
        self.store = store
        self.intake = intake
        self.now = NOW
        self.inbox = Inbox(store, "node", lease=60_000)

    def enqueue(self, *patients: str) -> list[int]:
        receipts = self.intake.enqueue(*(arrival(patient=patient) for patient in patients))
        return [receipt.message_id for receipt in receipts]

    def states(self) -> list[QueueState]:
        """Return the states of all messages, oldest first."""
        return [row.state for row in stored_rows.messages(self.store)][::-1]

    def all_done(self) -> bool:
        return set(self.states()) == {QueueState.DONE}

    def run(self, apply: Apply, until: Until, *, drain: float = 60, **settings: Any) -> None:
        """Run the worker until `until` returns true, then stop it."""

        async def scenario() -> None:
            policy = RetryPolicy(first=0.001, maximum=0.001)
            worker = Worker(
                self.inbox,
                apply,
                clock=lambda: self.now,
                policy=policy,
                random=Random(0),
                poll=0.01,
                **settings,
            )
            await worker.start()
            async with asyncio.timeout(PATIENCE):
                while not await asyncio.to_thread(until):
                    await asyncio.sleep(0.005)
                    self.now += 1
            await worker.stop(drain)

        asyncio.run(scenario())


def accepted(message: ClaimedMessage) -> MessageOutcome:
    return MessageOutcome(message.message_id, QueueEvent.ACCEPTED)
