"""Retention drops old partitions as a whole, and keeps unfinished and recent messages."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from bridge.queue import operations, queries
from bridge.queue.claims import MessageOutcome
from bridge.queue.inbox import Inbox
from bridge.queue.retention import partitions
from bridge.queue.retention.policy import prune
from bridge.queue.states import QueueEvent, QueueState
from bridge.store.database import Database
from bridge.store.postgresql.partitions import TABLES
from bridge.store.records import exceptions
from bridge.store.records.exceptions import ExceptionSubject
from tests.bridge.queue.conftest import Intake
from tests.bridge.queue.partitioned_databases import (
    FIRST,
    continue_after,
    create_database,
    ids_in,
    names,
)
from tests.bridge.queue.samples import NOW, arrival, refused

pytestmark = pytest.mark.postgres

ROOT = Path(__file__).parents[3]
OLD = NOW - 10_000
SIZE = 40
SECOND = f"from_{FIRST}"
"""The tested partition. The one before it never had a message, and is removed."""
_NUMBERS = text("INSERT INTO message_number SELECT id * 3, id FROM message WHERE id >= :first")
_ENTRIES = text("INSERT INTO message_entry SELECT id, 0, 1 FROM message WHERE id >= :first")


@pytest.fixture
def store(postgres_server: str, migrated_template: str) -> Iterator[Database]:
    """A database whose next message is the first of a partition of forty."""
    with create_database(postgres_server, migrated_template) as database:
        continue_after(database, FIRST - 1, SIZE)
        yield database


@pytest.fixture
def full(store: Database, intake: Intake) -> Database:
    for _ in range(SIZE - 2):
        intake.enqueue(refused(received_at=OLD))
    with store.write() as connection:
        connection.execute(_NUMBERS, {"first": FIRST})
        connection.execute(_ENTRIES, {"first": FIRST})
    return store


def _next_partition(store: Database, intake: Intake) -> int:
    """Continue in another partition, and return the id of its first message."""
    continue_after(store, FIRST + SIZE - 1, SIZE)
    (receipt,) = intake.enqueue(refused())
    assert receipt.message_id == FIRST + SIZE
    return receipt.message_id


def test_a_whole_partition(full: Database, intake: Intake) -> None:
    """Its tables and all rows about its messages are removed, each archived once."""
    with full.write() as connection:
        exceptions.add(
            connection, ExceptionSubject.MESSAGE, [(FIRST, "kept"), (FIRST + SIZE, "kept")], NOW
        )
        exceptions.add(connection, ExceptionSubject.ORDER, [(FIRST, "of an order")], NOW)
    last = _next_partition(full, intake)
    archived: list[int] = []
    pruned = prune(
        full,
        NOW - 5000,
        batch=10,
        pause=lambda _: None,
        archive=lambda _, rows: archived.extend(row["id"] for row in rows),
    )
    assert pruned.messages == SIZE - 2
    assert archived == list(range(FIRST, FIRST + SIZE - 2))
    assert names(full) == [f"from_{last}"]
    assert [ids_in(full, table) for table in TABLES] == [[last], [last], [], []]
    assert ids_in(full, "message_identity") == [last]
    left = [(exception.kind, exception.row_id) for exception in exceptions.list_unseen(full, 10)]
    assert left == [(ExceptionSubject.MESSAGE, last), (ExceptionSubject.ORDER, FIRST)]


def test_unfinished_messages_stay(full: Database, intake: Intake) -> None:
    """A parked or recently settled message keeps its content, and can be applied."""
    waits = arrival("WAITS", patient="1", received_at=OLD)
    kept = intake.enqueue(waits, arrival(patient="2", received_at=OLD))
    parked, lately = (receipt.message_id for receipt in kept)
    with full.write() as connection:
        connection.execute(text("INSERT INTO message_number VALUES (7, :id)"), {"id": parked})
        connection.execute(text("INSERT INTO message_entry VALUES (:id, 1, 1)"), {"id": parked})
        exceptions.add(connection, ExceptionSubject.MESSAGE, [(parked, "code")], NOW)
    inbox = Inbox(full, "node")
    inbox.claim(OLD, 10)
    inbox.settle([MessageOutcome(parked, QueueEvent.GIVEN_UP)], OLD)
    inbox.settle([MessageOutcome(lately, QueueEvent.ACCEPTED)], NOW)
    last = _next_partition(full, intake)
    assert prune(full, NOW - 5000).messages == SIZE - 2
    assert names(full) == [f"from_{last}"]
    assert ids_in(full, "message_rest") == ids_in(full, "message_body_rest") == [parked, lately]
    assert ids_in(full, "message_number") == ids_in(full, "message_entry") == [parked]
    assert [exception.row_id for exception in exceptions.list_unseen(full, 10)] == [parked]
    assert queries.message(full, parked).payload == waits.payload
    (again,) = intake.enqueue(waits)
    assert (again.duplicate, again.message_id) == (True, parked)
    operations.replay_message(full, parked)
    (claimed,) = Inbox(full, "node").claim(NOW, 10)
    assert claimed.message_id == parked
    assert prune(full, NOW + 1).messages == 1  # the other message, now old


def test_many_unfinished_messages(
    full: Database, intake: Intake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partition with many unfinished messages stays, and its old rows are removed one by one."""
    monkeypatch.setattr(partitions, "MAX_MOVED", 1)
    waiting = [
        intake.enqueue(arrival(patient=str(n), received_at=OLD))[0].message_id for n in range(2)
    ]
    last = _next_partition(full, intake)
    assert prune(full, NOW - 5000, pause=lambda _: None).messages == SIZE - 2
    assert names(full) == [SECOND, f"from_{last}"]
    assert ids_in(full, f"message_{SECOND}") == waiting


def test_a_partition_that_is_not_all_old(full: Database, intake: Intake) -> None:
    """The partition waits for its last rows only if they are old soon and waiting is allowed."""
    intake.enqueue(refused(received_at=NOW), refused(received_at=NOW))
    _next_partition(full, intake)
    assert prune(full, NOW - 5000, patience=60_000).messages == 0
    assert prune(full, NOW - 5000, patience=5000).messages == SIZE - 2
    assert SECOND in names(full)


def test_a_long_read_postpones_retention(full: Database, intake: Intake) -> None:
    """A long read of a partition postpones its removal. No other node waits for the read."""
    _next_partition(full, intake)
    pauses: list[float] = []
    with full.read() as connection:
        connection.execute(text(f"SELECT count(*) FROM message_{SECOND}"))  # noqa: S608  # our own name
        prune(full, NOW - 5000, pause=pauses.append)
        assert pauses[-partitions.MAX_TRIES :] == [partitions.RETRY_SECONDS] * partitions.MAX_TRIES
    assert len(ids_in(full, f"message_{SECOND}")) == SIZE - 2
    archived: list[object] = []
    prune(full, NOW - 5000, archive=lambda *given: archived.append(given))
    assert SECOND not in names(full)
    assert archived == []  # done before


def test_replay_during_retention(
    full: Database, intake: Intake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search for unfinished messages blocks no writers, and replayed messages stay."""
    last = _next_partition(full, intake)
    look, begun = partitions._ids, []

    def looked(*given: Any) -> list[int]:
        found = look(*given)
        if given[3] > partitions.MAX_MOVED and FIRST not in ids_in(full, "message_identity"):
            begun.append(operations.replay_message(full, FIRST, operations.Routing("o", "v", (5,))))
        return found

    monkeypatch.setattr(partitions, "_ids", looked)
    assert prune(full, NOW - 5000, pause=lambda _: None).messages == SIZE - 2
    assert len(begun) == 1
    assert names(full) == [f"from_{last}"]
    assert ids_in(full, "message") == [FIRST, last]
    assert [message.message_id for message in Inbox(full, "node").claim(NOW, 10)] == [FIRST]


def test_a_retransmit_in_another_partition(store: Database, intake: Intake) -> None:
    """Each node knows it as a retransmit. Other content with its control id is new."""
    first, other = arrival("TWICE", content="a"), arrival("TWICE", content="b")
    (receipt,) = intake.enqueue(first)
    _next_partition(store, intake)
    assert intake.enqueue(first)[0].message_id == receipt.message_id
    (second,) = intake.enqueue(other)
    assert (second.duplicate, second.reused) == (False, True)
    with asyncio.Runner() as runner:
        node = Intake(store, runner)
        node.message_log.start(runner.get_loop())
        again = node.enqueue(first, other)
        runner.run(node.message_log.stop())
    assert [message.message_id for message in again] == [receipt.message_id, second.message_id]
    assert all(message.duplicate for message in again)


def test_an_old_message_is_replayed(full: Database, intake: Intake) -> None:
    """A scan of the newest partitions becomes a full scan after a notification."""
    clock = [0.0]
    inbox = Inbox(full, "node", timer=lambda: clock[0])
    continue_after(full, FIRST + 500_000, SIZE)
    (newest,) = intake.enqueue(arrival("NEW"))
    assert [message.message_id for message in inbox.claim(NOW, 10)] == [newest.message_id]
    operations.replay_message(full, FIRST, operations.Routing("orders", "v", (5,)))
    clock[0] += 1
    assert inbox.claim(NOW, 10) == []
    inbox.expect_old_messages()
    assert [message.message_id for message in inbox.claim(NOW, 10)] == [FIRST]
    assert queries.message(full, FIRST).row.state is QueueState.CLAIMED


def test_a_killed_retention(
    full: Database, intake: Intake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run continues, archives no row twice, and removes newly old rows."""
    last = _next_partition(full, intake)
    url = full.engine.url.render_as_string(hide_password=False)
    file = tmp_path / "archived"
    command = [
        sys.executable,
        "-m",
        "tests.bridge.queue.retention_process",
        url,
        str(NOW - 5000),
        str(file),
    ]
    state = text("UPDATE message SET state = :state WHERE id = :id")
    with full.write() as connection:
        connection.execute(state, {"state": "parked", "id": FIRST + 3})
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == -signal.SIGKILL
    archived = [int(line) for line in file.read_text("ascii").split()]
    assert archived == [FIRST + n for n in range(21) if n != 3]
    assert len(ids_in(full, "message")) == SIZE - 1
    with full.write() as connection:
        connection.execute(state, {"state": "refused", "id": FIRST + 3})
    monkeypatch.setattr(partitions, "MAX_WINDOW", 4)
    monkeypatch.setattr(partitions, "PROBE_ROWS", 2)
    prune(full, NOW - 5000, archive=lambda _, rows: archived.extend(row["id"] for row in rows))
    assert archived[20:] == [*range(FIRST + 21, FIRST + SIZE - 2), FIRST + 3]
    assert names(full) == [f"from_{last}"]
    assert ids_in(full, "message") == [last]
