"""A frozen node makes no call for a message that another node may have claimed."""

import asyncio
from pathlib import Path

import pytest

from bridge.intake.process.order_processor import OrderProcessor
from bridge.intake.process.order_repository import OrderRepository
from bridge.intake.receive.completion import CompletionWaiter
from bridge.intake.receive.listener_policy import ListenerPolicy
from bridge.metrics import Metrics
from bridge.queue.inbox import Inbox
from bridge.queue.states import QueueEvent, QueueState
from bridge.store.database import Database
from tests.bridge.delivery.fixtures import SITE, inbound
from tests.bridge.delivery.whole_bridge import open_hospital
from tests.bridge.intake.fixture import order

pytestmark = pytest.mark.anyio


async def test_no_call_after_the_lease(tmp_path: Path, database: Database) -> None:
    """The message is postponed and its order is not registered. With a new lease it is."""
    async with open_hospital(tmp_path, database) as hospital:
        await hospital.worker.stop()
        await hospital.hand_over(order("ID1", "A1"))
        seconds = 0.0
        repository = OrderRepository(database, hospital.time)
        inbox = Inbox(database, "one", write_records=repository.write, timer=lambda: seconds)
        processor = OrderProcessor(
            hospital.client,
            repository,
            {"ris": ListenerPolicy("ris", inbound(), SITE)},
            CompletionWaiter(lambda _: asyncio.sleep(0, QueueState.DONE)),
            Metrics(),
        )
        events = []
        for pause in (inbox.lease / 1000, 0.0):
            claimed = inbox.claim(hospital.time(), 1)
            seconds += pause
            async for outcomes in processor.apply(claimed):
                events += [each.event for each in outcomes]
                listed = await hospital.client.worklist(SITE)
                assert len(listed.items) == events.count(QueueEvent.ACCEPTED)
                inbox.settle(outcomes, hospital.time())
            hospital.time.leap += 1000
        assert events == [QueueEvent.POSTPONED, QueueEvent.ACCEPTED]
