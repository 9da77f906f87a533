"""A message with another patient for a known order; messages about one patient take turns."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bridge.contract import OrderKey
from bridge.intake.process.jobs import MessageJob
from bridge.intake.process.order_processor import OrderProcessor, PatientLocks
from bridge.intake.process.order_repository import OrderRepository
from bridge.intake.receive.completion import CompletionWaiter
from bridge.intake.receive.handler import FrameOffload
from bridge.intake.receive.listener_policy import ListenerPolicy
from bridge.intake.receive.patient_check import merged_patient_check
from bridge.metrics import Metrics
from bridge.orders.order import Order, OrderState
from bridge.orders.rules import SourceMessage
from bridge.queue.claims import ClaimedMessage, MessageOutcome
from bridge.queue.inbox import Inbox
from bridge.queue.states import QueueState
from bridge.store.database import Database
from bridge.store.records import order_index
from config.listeners import PatientConflict
from mappings.hl7.refusals import AckCode
from mappings.inbound.events import OrderAction, OrderEvent
from tests.bridge.delivery.fixtures import SITE, inbound
from tests.bridge.delivery.whole_bridge import Hospital, open_hospital
from tests.bridge.intake.fixture import LISTENING, open_intake
from tests.bridge.intake.messages import adt, order_group, order_message

OTHER = "OTHER^OLGA"
Open = Callable[[PatientConflict], AbstractAsyncContextManager[Hospital]]


@pytest.fixture
def opened(tmp_path: Path, database: Database) -> Open:
    @asynccontextmanager
    async def made(conflict: PatientConflict) -> AsyncIterator[Hospital]:
        async with open_hospital(tmp_path, database) as hospital:
            hospital.use(ListenerPolicy("ris", inbound(), SITE, patient_conflict=conflict))
            yield hospital

    return made


async def listed(hospital: Hospital) -> dict[str, str]:
    rows = (await hospital.client.worklist(SITE, status="Ordered")).items
    orders = [order for row in rows for order in row["orders"]]
    return {
        order["PatientMRN"]: f"{order['Accession']} {order.get('StudyDescription', '')}"
        for order in orders
    }


def last(hospital: Hospital) -> tuple[str, str, list[str]]:
    """Return state and code of the last message, and its exceptions."""
    ((number, state, code),) = hospital.rows(
        "SELECT id, state, code FROM message ORDER BY id DESC LIMIT 1"
    )
    codes = hospital.rows(f"SELECT code FROM exception WHERE row_id = {number}")  # noqa: S608
    return state, code, [item for (item,) in codes]


@pytest.mark.parametrize("conflict", [PatientConflict.PARK, PatientConflict.REFUSE])
async def test_park(opened: Open, conflict: PatientConflict) -> None:
    """The order stays unchanged, and the message is parked with an exception."""
    controls = ("XO", "CA", "HD", "DC")
    async with opened(conflict) as hospital:
        for control in controls:
            numbers = (f"P{control}", f"F{control}")
            order = order_group("NW", *numbers, accession=control)
            await hospital.send(order_message(order, mrn=f"OWN{control}"))
            wrong = order_group(control, *numbers, accession=control, what="MR Head")
            await hospital.send(order_message(wrong, mrn=f"OTHER{control}", name=OTHER))
            assert last(hospital) == ("parked", "patient_conflict", ["patient_conflict"]), control
        assert await listed(hospital) == {f"OWN{item}": f"{item} CT Head" for item in controls}


async def test_move(opened: Open) -> None:
    """The order moves to the other patient, without data of the former one."""
    async with opened(PatientConflict.MOVE) as hospital:
        await hospital.send(order_message(order_group("NW", "P1", "F1", accession="A1")))
        wrong = order_group("XO", "P1", "F1", accession="A1", what="MR Head")
        await hospital.send(order_message(wrong, mrn="M2", name=OTHER))
        assert last(hospital) == ("done", "order_moved", ["order_moved"])
        assert await listed(hospital) == {"M2": "A1 MR Head"}
        tags = [json.loads(row) for (row,) in hospital.rows("SELECT tags FROM bridge_order")]
        assert OTHER in {tag["PatientName"] for tag in tags if tag["PatientMRN"] == "M2"}
        await hospital.send(
            order_message(order_group("CA", "P1", "F1", accession="A1"), mrn="M2", name=OTHER)
        )
        assert await listed(hospital) == {}


async def test_a_started_report_does_not_move(opened: Open) -> None:
    """A started report stays with its patient, and the message is parked."""
    async with opened(PatientConflict.MOVE) as hospital:
        await hospital.send(order_message(order_group("NW", "P1", "F1", accession="A1")))
        page = await hospital.page("A1")
        await page("save", text="Dictated.")
        await hospital.send(
            order_message(order_group("XO", "P1", "F1", accession="A1"), mrn="M2", name=OTHER)
        )
        assert last(hospital) == ("parked", "patient_conflict", ["patient_conflict"])
        assert await hospital.report("A1") is not None


async def test_second_order(opened: Open) -> None:
    """Both orders are on the worklist, and the message is an exception."""
    async with opened(PatientConflict.ACCEPT) as hospital:
        await hospital.send(order_message(order_group("NW", "P1", "F1", accession="A1")))
        await hospital.send(
            order_message(order_group("XO", "P1", "F1", accession="A1"), mrn="M2", name=OTHER)
        )
        assert last(hospital) == ("done", "patient_conflict", ["patient_conflict"])
        assert set(await listed(hospital)) == {"M1", "M2"}


async def test_a_merge_resolves_it(opened: Open) -> None:
    """A change that arrives before its merge is applied after it."""
    async with opened(PatientConflict.PARK) as hospital:
        await hospital.send(order_message(order_group("NW", "P1", "F1"), sent=1))
        await hospital.send(
            order_message(order_group("XO", "P1", "F1", what="MR Head"), mrn="M2", sent=3)
        )
        await hospital.send(adt("A40", "M2", "M1"))
        await hospital.applied()
        assert await listed(hospital) == {"M2": "F1 MR Head"}
        assert hospital.rows("SELECT code FROM exception") == []


async def test_new_orders_are_not_stopped(opened: Open) -> None:
    """A reused number results in a second order with an exception. Other new orders have none."""
    async with opened(PatientConflict.PARK) as hospital:
        await hospital.send(order_message(order_group("NW", "P1", "F1", accession="A1")))
        await hospital.send(
            order_message(order_group("NW", "P1", "F1", accession="A1"), mrn="M2", name=OTHER)
        )
        assert last(hospital) == ("done", "patient_conflict", ["patient_conflict"])
        await hospital.send(
            order_message(order_group("XO", "P9", "F9", accession="A1"), mrn="M3", name=OTHER)
        )
        assert last(hospital) == ("done", "", [])
        assert set(await listed(hospital)) == {"M1", "M2", "M3"}


async def test_messages_that_arrive_together(opened: Open) -> None:
    """A wrong correction waits for the order in the same batch."""
    async with opened(PatientConflict.PARK) as hospital:
        await hospital.hand_over(order_message(order_group("NW", "P1", "F1", accession="A1")))
        wrong = order_group("XO", "P1", "F1", accession="A1")
        await hospital.hand_over(order_message(wrong, mrn="M2", name=OTHER))
        await hospital.applied()
        assert set(await listed(hospital)) == {"M1"}
        assert last(hospital)[:2] == ("parked", "patient_conflict")


async def test_refuse(database: Database) -> None:
    """Once the order is applied, AE 204 at PID-3. The order's own patient is accepted."""
    listening = replace(LISTENING, patient_conflict=PatientConflict.REFUSE)
    async with open_intake(database, listening) as intake:
        with database.write() as connection:
            key = OrderKey("SITE1", "M1", "A1")
            order_index.save(connection, [Order(key, OrderState.ORDERED, 1, 1, 0, "P1", "F1")])
        check = merged_patient_check(listening, database)
        assert check is not None
        intake.handler.use(listening.with_checks(check))
        offload = FrameOffload(intake.handler, needs_lookup=check.applies_to)
        intake.front = lambda handle: offload
        change = order_group("XO", "P1", "F1", accession="A1")
        ack = await intake.ask(order_message(change, mrn="M2", name=OTHER))
        assert (ack.code, ack.error_codes) == (AckCode.ERROR, ("204",))
        assert intake.rows("error_place") == [("PID-3",)]
        assert (await intake.ask(order_message(change))).code is AckCode.ACCEPT
        assert not check.applies_to(order_message(order_group("NW", "P1", "F1")))


class Node:
    def __init__(self, hospital: Hospital, url: str, name: str) -> None:
        self.database = Database(url)
        repository = OrderRepository(self.database, hospital.time)
        listeners = {"ris": ListenerPolicy("ris", inbound(), SITE)}
        waiting = CompletionWaiter(lambda _: asyncio.sleep(0, QueueState.DONE))
        self.order_processor = OrderProcessor(
            hospital.client, repository, listeners, waiting, Metrics()
        )
        self.inbox = Inbox(self.database, name, write_records=repository.write)
        self._time = hospital.time

    def begin(self) -> AsyncGenerator[Sequence[MessageOutcome]]:
        (claimed,) = self.inbox.claim(self._time(), 1)
        return self.order_processor.apply([claimed])

    def write(self, outcomes: Sequence[MessageOutcome]) -> None:
        self.inbox.settle(outcomes, self._time())


@pytest.mark.parametrize(
    "database_url", [pytest.param("postgresql", marks=pytest.mark.postgres)], indirect=True
)
@pytest.mark.parametrize("control", ["XO", "CA", "HD", "DC"])
async def test_two_nodes_at_the_same_moment(
    tmp_path: Path, database_url: str, database: Database, control: str
) -> None:
    """A correction with another patient waits for the order that another node applies."""
    async with open_hospital(tmp_path, database) as hospital:
        await hospital.worker.stop()
        await hospital.hand_over(order_message(order_group("NW", "P1", "F1", accession="A1")))
        wrong = order_group(control, "P1", "F1", accession="A1", what="MR Head")
        await hospital.hand_over(order_message(wrong, mrn="M2", name=OTHER))
        one, two = (Node(hospital, database_url, name) for name in ("one", "two"))

        ordering = one.begin()
        registered = await anext(ordering)
        async for outcomes in two.begin():
            assert [outcome.code for outcome in outcomes] == ["order_in_progress"]
            two.write(outcomes)
        one.write(registered)
        assert [lane async for lane in ordering] == []

        while last(hospital)[0] == "queued":  # until the lock is released
            hospital.time.leap += 1000
            async for outcomes in two.begin():
                two.write(outcomes)
        assert last(hospital) == ("parked", "patient_conflict", ["patient_conflict"])
        assert await listed(hospital) == {"M1": "A1 CT Head"}
        for item in (one, two):
            item.database.dispose()


def job(number: int, *mrns: str, accession: str = "") -> MessageJob:
    """Return a message about patients, by default with its own order."""
    order = accession or f"A{number}"
    events = [OrderEvent(OrderAction.CHANGE, "S", "", mrn, order, {}, {}, "ORC") for mrn in mrns]
    claimed = ClaimedMessage(number, b"", "ris", "orders", "1", (), 1, 0, 0, "ORM^O01")
    return MessageJob(claimed, SourceMessage(number, None), events)


def numbers(jobs: list[MessageJob]) -> list[int]:
    return [message_job.claimed.message_id for message_job in jobs]


def test_the_older_of_two_is_first() -> None:
    """The later message is read again. Messages about other patients do not wait."""
    turns = PatientLocks()
    now, later = turns.lock([job(3, "M2"), job(2, "M1", "M2"), job(1, "M3")], turns.begin_read())
    assert (numbers(now), numbers(later)) == ([1, 2], [3])


def test_another_patient_for_an_order_waits_for_the_first() -> None:
    """A message with another patient for an order is read again after the earlier one."""
    turns = PatientLocks()
    jobs = [job(1, "M1", accession="A1"), job(2, "M2", accession="A1"), job(3, "M3")]
    now, later = turns.lock(jobs, turns.begin_read())
    assert (numbers(now), numbers(later)) == ([1, 3], [2])


async def test_a_locked_patient() -> None:
    """A batch about a locked patient waits."""
    turns = PatientLocks()
    first, second = turns.begin_read(), turns.begin_read()
    now, _ = turns.lock([job(1, "M1")], first)
    held, later = turns.lock([job(2, "M1")], second)
    turns.release(held, second)
    assert (numbers(held), numbers(later)) == ([], [2])
    waiting = asyncio.create_task(turns.wait(later))
    await asyncio.sleep(0)
    assert not waiting.done()
    turns.release(now, first)
    await waiting


def test_a_message_read_before_the_release() -> None:
    """A message read before the release is read again. Later ones are current."""
    turns = PatientLocks()
    first, second = turns.begin_read(), turns.begin_read()
    now, _ = turns.lock([job(1, "M1")], first)
    turns.release(now, first)
    held, later = turns.lock([job(2, "M1")], second)
    turns.release(held, second)
    assert numbers(later) == [2]
    assert numbers(turns.lock([job(2, "M1")], turns.begin_read())[0]) == [2]
