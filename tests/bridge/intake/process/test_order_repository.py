"""The order repository: inline reads equal reads on a thread, and small changes are recognized."""

from dataclasses import replace

import pytest

from bridge.contract import OrderKey
from bridge.intake.process.job_context import MessageChanges
from bridge.intake.process.order_repository import OrderRepository
from bridge.orders.order import Order, OrderState
from bridge.orders.values import as_moved_by_merge
from bridge.queue.arrivals import lane
from bridge.queue.claims import ClaimedMessage
from bridge.store.database import Database
from bridge.store.migration import upgrade
from bridge.store.records import exceptions, order_index, patient_records
from bridge.store.records.exceptions import MERGE_UNDONE
from tests.bridge.intake.fixture import LISTENING, order

LISTENERS = {"ris": LISTENING}
MERGE = (
    b"MSH|^~\\&|RIS|MAIN|BRIDGE|RAD|20261121120000||ADT^A40|M1|P|2.3.1\r"
    b"EVN|A40|20261121120000\rPID|1||M1\rMRG|M2\r"
)


def batch(number: int) -> list[ClaimedMessage]:
    return [
        claimed(item, order(f"ID{item}", f"A{item}", f"M{item}")) for item in range(1, number + 1)
    ]


def claimed(number: int, payload: bytes, mapping: str = "orders") -> ClaimedMessage:
    versions = {definition.name: definition.version for definition in LISTENING.definitions}
    return ClaimedMessage(
        number, payload, "ris", mapping, versions[mapping], (number,), 1, 0, 0, ""
    )


@pytest.fixture
def repository(database: Database) -> OrderRepository:
    upgrade(database)
    repository = OrderRepository(database, lambda: 0)
    repository.prepare(batch(1), LISTENERS)
    return repository


def test_merged_patients(repository: OrderRepository, database: Database) -> None:
    """A message about a merged patient waits for messages about the survivor."""
    with database.write() as connection:
        patient_records.merge(connection, "SITE1", "M2", "M9")
    read = repository.prepare(batch(3), LISTENERS)
    assert [job.events[0].mrn for job in read.jobs] == ["M1", "M3"]
    assert [(message.message_id, message.lane) for message in read.requeued] == [
        (2, lane("SITE1|M9"))
    ]


def test_a_patient_who_was_merged_meanwhile(
    repository: OrderRepository, database: Database
) -> None:
    """Orders that were applied under the former identifier are stored with the survivor."""
    with database.write() as connection:
        patient_records.merge(connection, "S", "M", "M9")
        repository.write(connection, [MessageChanges(1, ORDERS[:2])])
    with database.read() as connection:
        found = order_index.find_by_patient(connection, [("S", "M"), ("S", "M9")])
    assert {item.key for item in found} == {replace(item.key, mrn="M9") for item in ORDERS[:2]}


def test_a_merge_that_was_undone_meanwhile(repository: OrderRepository, database: Database) -> None:
    """An order that was applied to the survivor meanwhile is an exception."""
    marked = [as_moved_by_merge(item, number) for item, number in zip(ORDERS, "XY", strict=False)]
    with database.write() as connection:
        patient_records.merge(connection, "S", "Y", "M")
        repository.write(connection, [MessageChanges(1, [*marked, ORDERS[2]])])
        (found,) = order_index.states(connection, [KEYS[0]]).values()
    assert [(row.row_id, row.code) for row in exceptions.list_unseen(database, 10)] == [
        (found[0], MERGE_UNDONE)
    ]


KEYS = [OrderKey("S", "M", f"A{number}") for number in range(3)]
ORDERS = [Order(key, OrderState.ORDERED, 1, 1) for key in KEYS]
