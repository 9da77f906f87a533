"""A frozen node makes no call for a message that another node may have claimed."""

import asyncio
from pathlib import Path

import httpx
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
from tests.bridge.delivery.whole_bridge import Hospital, open_hospital
from tests.bridge.intake.fixture import order
from tests.bridge.intake.messages import adt, order_group, order_message


def processor(hospital: Hospital, repository: OrderRepository) -> OrderProcessor:
    return OrderProcessor(
        hospital.client,
        repository,
        {"ris": ListenerPolicy("ris", inbound(), SITE)},
        CompletionWaiter(lambda _: asyncio.sleep(0, QueueState.DONE)),
        Metrics(),
    )


async def test_no_call_after_the_lease(tmp_path: Path, database: Database) -> None:
    """The message is postponed and its order is not registered. With a new lease it is."""
    async with open_hospital(tmp_path, database) as hospital:
        await hospital.worker.stop()
        await hospital.hand_over(order("ID1", "A1"))
        seconds = 0.0
        repository = OrderRepository(database, hospital.time)
        inbox = Inbox(database, "one", write_records=repository.write, timer=lambda: seconds)
        node = processor(hospital, repository)
        events = []
        for pause in (inbox.lease / 1000, 0.0):
            claimed = inbox.claim(hospital.time(), 1)
            seconds += pause
            async for outcomes in node.apply(claimed):
                events += [each.event for each in outcomes]
                listed = await hospital.client.worklist(SITE)
                assert len(listed.items) == events.count(QueueEvent.ACCEPTED)
                inbox.settle(outcomes, hospital.time())
            hospital.time.leap += 1000
        assert events == [QueueEvent.POSTPONED, QueueEvent.ACCEPTED]


@pytest.mark.parametrize(
    ("message", "calls"),
    [
        (adt("A08", "M1", name="OTHER^OLGA"), 0),
        (order_message(order_group("CA", "P2", "F2"), order_group("NW", "P9", "F9")), 1),
        (order_message(order_group("CA", "P2", "F2"), order_group("CA", "P3", "F3")), 1),
    ],
    ids=["patient", "register", "withdraw"],
)
async def test_no_further_call_after_the_lease(
    tmp_path: Path, database: Database, message: bytes, calls: int
) -> None:
    """A lease that ends within a message ends its calls: the rest waits for a new claim."""
    async with open_hospital(tmp_path, database) as hospital:
        for number in (1, 2, 3):
            await hospital.send(order_message(order_group("NW", f"P{number}", f"F{number}")))
        await hospital.worker.stop()
        await hospital.hand_over(message)
        seconds = 0.0
        repository = OrderRepository(database, hospital.time)
        inbox = Inbox(database, "one", write_records=repository.write, timer=lambda: seconds)
        (claimed,) = inbox.claim(hospital.time(), 1)
        claimed.lease.ends_at = float(calls)

        async def freeze(_: httpx.Request) -> None:
            nonlocal seconds
            seconds = 1.0

        hospital.http.event_hooks["request"].append(freeze)
        events = [
            each.event
            async for outcomes in processor(hospital, repository).apply([claimed])
            for each in outcomes
        ]
        assert events == [QueueEvent.POSTPONED]
        orders = [
            each for row in (await hospital.client.worklist(SITE)).items for each in row["orders"]
        ]
        assert {"F1", "F3"} <= {each["Accession"] for each in orders} <= {"F1", "F2", "F3"}
        assert {each["PatientName"] for each in orders} == {"TESTER^TILDA"}
