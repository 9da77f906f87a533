"""The order repository: inline reads equal reads on a thread, and small changes are recognized."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from bridge.contract import OrderKey
from bridge.intake.process.job_context import MessageChanges
from bridge.intake.process.order_repository import OrderRepository, PreparedBatch
from bridge.orders.order import Order, OrderState
from bridge.queue.claims import ClaimedMessage
from bridge.queue.ledger.arrivals import lane
from bridge.store.database import Database
from bridge.store.migration import upgrade
from bridge.store.records import order_index, patient_records
from bridge.store.short_work import SHORT
from tests.bridge.intake.fixture import LISTENING, order

LISTENERS = {"ris": LISTENING}
MERGE = (
    b"MSH|^~\\&|RIS|MAIN|BRIDGE|RAD|20261121120000||ADT^A40|M1|P|2.3.1\r"
    b"EVN|A40|20261121120000\rPID|1||M1\rMRG|M2\r"
)


def batch(number: int) -> list[ClaimedMessage]:
    return [
        claimed(each, order(f"ID{each}", f"A{each}", f"M{each}")) for each in range(1, number + 1)
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


def both(
    repository: OrderRepository, messages: Sequence[ClaimedMessage]
) -> tuple[PreparedBatch | None, PreparedBatch]:
    return repository.prepare_inline(messages, LISTENERS), repository.prepare(messages, LISTENERS)


def test_inline_and_thread_reads(repository: OrderRepository, database: Database) -> None:
    """The results are equal, also for merged patients. PostgreSQL is read on a thread only."""
    with database.write() as connection:
        patient_records.merge(connection, "SITE1", "M2", "M9")
    inline, read = both(repository, batch(3))
    assert [job.events[0].mrn for job in read.jobs] == ["M1", "M3"]
    # waits for messages about M9
    assert [(outcome.message_id, outcome.lane) for outcome in read.requeued] == [
        (2, lane("SITE1|M9"))
    ]
    assert inline == (read if database.short_work is not None else None)


def test_a_patient_who_was_merged_meanwhile(
    repository: OrderRepository, database: Database
) -> None:
    """Orders that were applied under the former identifier are stored with the survivor."""
    with database.write() as connection:
        patient_records.merge(connection, "S", "M", "M9")
        repository.write(connection, [MessageChanges(1, ORDERS[:2])])
    with database.read() as connection:
        found = order_index.find_by_patient(connection, [("S", "M"), ("S", "M9")])
    assert {each.key for each in found} == {replace(each.key, mrn="M9") for each in ORDERS[:2]}


def test_long_reads_use_a_thread(repository: OrderRepository, database: Database) -> None:
    """A thread reads many messages, a merge, and while another thread uses the connection."""
    assert repository.prepare_inline(batch(SHORT + 1), LISTENERS) is None
    merge = claimed(9, MERGE, "patients")
    assert repository.prepare_inline([*batch(2), merge], LISTENERS) is None
    with database.read_committed():
        assert repository.prepare_inline(batch(1), LISTENERS) is None


KEYS = [OrderKey("S", "M", f"A{number}") for number in range(SHORT + 1)]
ORDERS = [Order(key, OrderState.ORDERED, 1, 1) for key in KEYS]


def test_small_changes() -> None:
    assert MessageChanges(1, ORDERS[:1]).is_small
    assert MessageChanges(1, ORDERS[:SHORT]).is_small


@pytest.mark.parametrize(
    "change",
    [
        MessageChanges(1, ORDERS),
        MessageChanges(1, [], reports=dict.fromkeys(KEYS, "R")),
        MessageChanges(1, [], removed=KEYS),
        MessageChanges(1, ORDERS[:13], removed=KEYS[13:]),
    ],
)
def test_large_changes(change: MessageChanges) -> None:
    """All orders of a patient whose date of birth is corrected are not a small change."""
    assert not change.is_small
