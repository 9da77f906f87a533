"""What is read of a batch where it may take no time is what is read in any case."""

from collections.abc import Sequence

import pytest

from bridge.intake.process.order_repository import Memory, Prepared
from bridge.queue.claims import ClaimedMessage
from bridge.store.database import Database
from bridge.store.migration import upgrade
from bridge.store.records import merged_patients
from bridge.store.short_work import SHORT
from tests.bridge.intake.desk import LISTENING, order

LISTENERS = {"ris": LISTENING}
MERGE = (
    b"MSH|^~\\&|RIS|MAIN|BRIDGE|RAD|20261121120000||ADT^A40|M1|P|2.3.1\r"
    b"EVN|A40|20261121120000\rPID|1||M1\rMRG|M2\r"
)


def batch(number: int) -> list[ClaimedMessage]:
    """Orders of different patients."""
    return [
        claimed(each, order(f"ID{each}", f"A{each}", f"M{each}")) for each in range(1, number + 1)
    ]


def claimed(number: int, payload: bytes, mapping: str = "orders") -> ClaimedMessage:
    """A message that was stored under the definition in force."""
    versions = {each.name: each.version for each in LISTENING.definitions}
    return ClaimedMessage(
        number, payload, "ris", mapping, versions[mapping], (number,), 1, 0, 0, ""
    )


@pytest.fixture
def memory(database: Database) -> Memory:
    """A memory that has looked into its database once: a connection is open."""
    upgrade(database)
    memory = Memory(database, lambda: 0)
    memory.prepare(batch(1), LISTENERS)
    return memory


def both(memory: Memory, messages: Sequence[ClaimedMessage]) -> tuple[Prepared | None, Prepared]:
    """What is read readily, and what is read."""
    return memory.prepare_readily(messages, LISTENERS), memory.prepare(messages, LISTENERS)


def test_it_is_the_same(memory: Memory, database: Database) -> None:
    """Of patients who were merged too; a server is asked in a thread."""
    with database.write() as connection:
        merged_patients.merge(connection, "SITE1", "M2", "M9")
    readily, read = both(memory, batch(3))
    assert [job.events[0].mrn for job in read.jobs] == ["M1", "M3"]
    assert [each.message_id for each in read.moved] == [2]  # waits for what is about M9
    assert readily == (read if database.short_work is not None else None)


def test_what_may_take_longer_is_for_a_thread(memory: Memory, database: Database) -> None:
    """Many messages, a merge, and where another thread uses the connection."""
    assert memory.prepare_readily(batch(SHORT + 1), LISTENERS) is None
    merge = claimed(9, MERGE, "patients")
    assert memory.prepare_readily([*batch(2), merge], LISTENERS) is None
    with database.read_committed():
        assert memory.prepare_readily(batch(1), LISTENERS) is None
