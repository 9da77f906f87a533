"""A node applies messages of a listener that another node has activated."""

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from bridge.intake.process.order_processor import OrderProcessor
from bridge.intake.process.order_repository import OrderRepository
from bridge.intake.receive.completion import CompletionWaiter
from bridge.intake.receive.listener_policy import ListenerPolicy
from bridge.metrics import Metrics
from bridge.queue.inbox import Inbox
from bridge.queue.states import QueueEvent, QueueState
from bridge.runtime.listener_definitions import ListenerDefinitions
from bridge.store.database import Database
from tests.bridge.delivery.fixtures import SITE, inbound
from tests.bridge.delivery.whole_bridge import open_hospital
from tests.bridge.intake.fixture import order


@pytest.mark.parametrize("adopts", [False, True], ids=["start", "activation"])
async def test_a_listener_that_is_not_loaded_yet(
    tmp_path: Path, database: Database, adopts: bool
) -> None:
    """Its definitions are loaded on a thread, and the order is registered."""
    loaded_on: list[threading.Thread] = []

    def load_newer() -> Mapping[str, ListenerPolicy]:
        loaded_on.append(threading.current_thread())
        return {"ris": ListenerPolicy("ris", inbound(), SITE)}

    async with open_hospital(tmp_path, database) as hospital:
        await hospital.worker.stop()
        await hospital.hand_over(order("ID1", "A1"))
        repository = OrderRepository(database, hospital.time)
        inbox = Inbox(database, "one", write_records=repository.write)
        definitions = ListenerDefinitions({}, load_newer)
        node = OrderProcessor(
            hospital.client,
            repository,
            {} if adopts else definitions,
            CompletionWaiter(lambda _: asyncio.sleep(0, QueueState.DONE)),
            Metrics(),
        )
        if adopts:
            node.use(definitions)
        events = []
        async for outcomes in node.apply(inbox.claim(hospital.time(), 1)):
            events += [each.event for each in outcomes]
            inbox.settle(outcomes, hospital.time())
        assert events == [QueueEvent.ACCEPTED]
        assert loaded_on
        assert threading.main_thread() not in loaded_on
        assert await hospital.report("A1", "M1") is not None
