"""On SQLite the message log is a file of its own, and the queue gets its messages from it."""

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from bridge.queue import queries
from bridge.queue.inbox import Inbox
from bridge.queue.log_tables import SQLiteLog, pull_new
from bridge.queue.states import QueueState
from bridge.store.database import Database
from bridge.store.errors import StoreUnavailable
from bridge.store.sqlite import message_log_of
from tests.bridge.queue import stored_rows
from tests.bridge.queue.samples import NOW, arrival, count_of, ids_of, refused, settle_all
from tests.databases import fresh_file

ROOT = Path(__file__).parents[3]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "bridge.db"


@pytest.fixture
def store(file: Path) -> Iterator[Database]:
    database = Database(fresh_file(file))
    yield database
    database.dispose()


@pytest.fixture
def log(store: Database) -> Iterator[SQLiteLog]:
    with closing(SQLiteLog(store)) as log:
        yield log


def in_log(file: Path) -> list[int]:
    with closing(sqlite3.connect(message_log_of(file))) as log:
        return [row[0] for row in log.execute("SELECT id FROM arrival ORDER BY id")]


def test_a_writer_of_the_queue_does_not_delay_an_acknowledgment(
    store: Database, log: SQLiteLog
) -> None:
    with store.write() as connection:
        connection.execute(text("UPDATE lane_watermark SET message_id = message_id"))
        (receipt,) = log.store([arrival("A")])
    assert ids_of(Inbox(store, "node").claim(NOW, 10)) == [receipt.message_id]


def test_a_stored_message_is_claimed_once(store: Database, log: SQLiteLog) -> None:
    (receipt,) = log.store([arrival("A")])
    inbox = Inbox(store, "node")
    assert ids_of(inbox.claim(NOW, 10)) == [receipt.message_id]
    settle_all(inbox, receipt.message_id)
    assert inbox.claim(NOW, 10) == []


def test_pruning_leaves_what_the_queue_does_not_have(
    store: Database, log: SQLiteLog, file: Path
) -> None:
    first, second = (log.store([arrival(name)])[0].message_id for name in "AB")
    pull_new(store)
    third = log.store([arrival("C")])[0].message_id
    assert in_log(file) == [first, second, third]
    assert not log.prune()
    assert in_log(file) == [third]
    assert count_of(store) == 3


@pytest.mark.parametrize("step", ["stored", "pulled", "pruned"])
def test_a_retransmit_is_recognized_wherever_the_message_is(
    store: Database, log: SQLiteLog, step: str
) -> None:
    """In the log only, in both files, in the queue only."""
    original, bad = arrival("A"), refused("B")
    first, second = log.store([original, bad])
    if step != "stored":
        pull_new(store)
    if step == "pruned":
        log.prune()
    again, other, refusal = log.store(
        [original, arrival("A", content="other"), replace(bad, ack=b"another")]
    )
    assert (again.duplicate, again.message_id, again.ack) == (True, first.message_id, first.ack)
    assert (other.duplicate, other.reused) == (False, True)
    assert (refusal.message_id, refusal.ack) == (second.message_id, second.ack)
    assert queries.message(store, first.message_id).row.retransmits == 1


def test_a_message_that_leaves_the_log_during_the_search(
    store: Database, log: SQLiteLog, file: Path
) -> None:
    """The log is searched first, in the transaction that stores: nothing can leave it."""
    log.store([arrival("A")])
    pull_new(store)
    with log.transaction() as cursor:
        with (
            closing(sqlite3.connect(message_log_of(file), timeout=0)) as other,
            pytest.raises(sqlite3.OperationalError, match="locked"),
        ):
            other.execute("DELETE FROM arrival")
        assert len(log.known(cursor, [arrival("A").identity])) == 1


def test_ids_are_never_reused(store: Database, log: SQLiteLog, file: Path) -> None:
    """Also if retention has deleted all newer messages from the queue."""
    (last,) = log.store([arrival("A")])
    pull_new(store)
    log.prune()
    with store.write() as connection:
        connection.execute(text("DELETE FROM message"))
        connection.execute(text("DELETE FROM message_body"))
    store.dispose()
    reopened = Database(f"sqlite:///{file}")
    with closing(SQLiteLog(reopened)) as again:
        assert again.store([arrival("B")])[0].message_id > last.message_id
    reopened.dispose()


@pytest.mark.parametrize("what", ["older", "missing"])
def test_another_copy_of_the_log(store: Database, log: SQLiteLog, file: Path, what: str) -> None:
    """If an older copy of the log is restored, or none, the ids follow those of the queue."""
    log.store([arrival("A")])
    pull_new(store)
    log.close()
    store.dispose()
    shutil.copyfile(message_log_of(file), file.with_name("older"))
    changed = Database(f"sqlite:///{file}")
    with closing(SQLiteLog(changed)) as later:
        (last,) = later.store([arrival("B")])
        pull_new(changed)
    changed.dispose()
    for end in ("-wal", "-shm", ""):
        Path(f"{message_log_of(file)}{end}").unlink(missing_ok=True)
    if what == "older":
        file.with_name("older").rename(message_log_of(file))
    restored = Database(f"sqlite:///{file}")
    with closing(SQLiteLog(restored)) as again:
        repeated, new = again.store([arrival("B"), arrival("C")])
    pull_new(restored)
    assert (repeated.duplicate, repeated.message_id) == (True, last.message_id)
    assert new.message_id > last.message_id
    assert count_of(restored) == 3
    restored.dispose()


def test_an_older_copy_of_the_queue(store: Database, log: SQLiteLog, file: Path) -> None:
    """What the log still has enters the queue again."""
    log.store([arrival("A")])
    store.dispose()
    shutil.copyfile(file, file.with_name("older"))
    pulling = Database(f"sqlite:///{file}")
    pull_new(pulling)
    pulling.dispose()
    for end in ("-wal", "-shm"):
        Path(f"{file}{end}").unlink(missing_ok=True)
    file.with_name("older").rename(file)
    restored = Database(f"sqlite:///{file}")
    assert len(Inbox(restored, "node").claim(NOW, 10)) == 1
    restored.dispose()


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM arrival WHERE id = 2",
        "UPDATE arrival SET id = 9 WHERE id = 3",
        "UPDATE arrival SET state = 'qUeued' WHERE id = 1",
        "UPDATE arrival SET payload = NULL WHERE id = 1",
    ],
)
def test_a_damaged_log(store: Database, log: SQLiteLog, file: Path, damage: str) -> None:
    """Nothing of it enters the queue, and nothing is deleted."""
    log.store([arrival("A"), arrival("B"), arrival("C")])
    with closing(sqlite3.connect(message_log_of(file), isolation_level=None)) as other:
        other.execute(damage)
    stored = in_log(file)
    with pytest.raises(StoreUnavailable, match="SQLITE_CORRUPT"):
        Inbox(store, "node").claim(NOW, 10)
    assert not log.prune()
    assert in_log(file) == stored


def test_the_first_messages_are_lost(
    store: Database, log: SQLiteLog, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As after the restore of an older database: the others are processed, and the log says it."""
    log.store([arrival("A"), arrival("B")])
    with closing(sqlite3.connect(message_log_of(file), isolation_level=None)) as other:
        other.execute("DELETE FROM arrival WHERE id = 1")
    assert len(Inbox(store, "node").claim(NOW, 10)) == 1
    assert "messages are lost" in capsys.readouterr().out


_OLD_MESSAGE = """
    INSERT INTO message (id, received_at, listener, identity, digest, edition, message_type,
        mapping, mapping_version, lane_1, flags, ack_code, acknowledgment, error_code, error_place,
        state)
    VALUES (:id, 1, 'ris', :id, :id, 0, 'ORM^O01', 'orders', '1', 7, 0, 'AA', 'delivered', '', '',
        'queued')
"""


def test_a_database_of_an_earlier_release(store: Database) -> None:
    """Its messages were stored in the queue, and entered their lanes at a claim."""
    with store.write() as connection:
        for number in (5, 6):
            connection.execute(text(_OLD_MESSAGE), {"id": number})
            body = "INSERT INTO message_body (message_id, payload, ack) VALUES (:id, X'4D', X'4D')"
            connection.execute(text(body), {"id": number})
        connection.execute(text("UPDATE lane_watermark SET message_id = 5"))
        connection.execute(text("INSERT INTO message_lane (lane, message_id) VALUES (7, 5)"))
    with closing(SQLiteLog(store)) as log:
        assert log.store([arrival("A", lanes=(7,))])[0].message_id == 7
    inbox = Inbox(store, "node")
    for number in (5, 6, 7):  # one lane
        assert ids_of(inbox.claim(NOW, 10)) == [number]
        settle_all(inbox, number)


def test_a_disk_that_is_full_for_the_queue(store: Database, log: SQLiteLog) -> None:
    """Readers see what the queue has; the log keeps the rest."""
    log.store([arrival("A")])
    pull_new(store)
    log.store([arrival("B")])
    assert store.file is not None
    with closing(sqlite3.connect(store.file, isolation_level=None)) as other:
        other.execute(
            "CREATE TRIGGER full BEFORE INSERT ON message BEGIN SELECT RAISE(ABORT, 'full'); END"
        )
        assert len(stored_rows.messages(store)) == 1
        other.execute("DROP TRIGGER full")
    assert len(stored_rows.messages(store)) == 2


_KILLED = """
import os, sys
from bridge import index_key
from bridge.queue.log_tables import SQLiteLog, pull
from bridge.store.database import Database
from tests.bridge.queue.samples import arrival

database = Database(sys.argv[1])
log = SQLiteLog(database)
log.store([arrival(f"K{number}") for number in range(20)])
if sys.argv[2] == "before pull":
    os.kill(os.getpid(), 9)
with database.write_without_sync() as connection:
    pull(database, connection)
    if sys.argv[2] == "within pull":
        os.kill(os.getpid(), 9)
if sys.argv[2] == "before deletion":
    os.kill(os.getpid(), 9)
with log.transaction() as cursor:
    cursor.execute("DELETE FROM arrival WHERE id <= 10")
    if sys.argv[2] == "within deletion":
        os.kill(os.getpid(), 9)
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize(
    "moment", ["before pull", "within pull", "before deletion", "within deletion", "at the end"]
)
def test_a_kill_loses_and_repeats_nothing(file: Path, moment: str) -> None:
    command = [sys.executable, "-c", _KILLED, fresh_file(file), moment]
    subprocess.run(command, cwd=ROOT, check=False)
    database = Database(f"sqlite:///{file}")
    inbox = Inbox(database, "node", lease=1000)
    claimed, count = inbox.claim(NOW, 100), 0
    while claimed:
        count += len(claimed)
        settle_all(inbox, *ids_of(claimed))
        claimed = inbox.claim(NOW, 100)
    assert count == 20
    rows = stored_rows.messages(database)
    assert [row.state for row in rows] == [QueueState.DONE] * 20
    with closing(SQLiteLog(database)) as log:
        assert not log.prune()
    assert in_log(file) == []
    database.dispose()
