"""Large messages are stored in chunks and read as a whole, also those of earlier releases."""

import dataclasses
import errno
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text

from bridge.intake.process.jobs import ContentUnreadableError
from bridge.intake.process.jobs import read as read_job
from bridge.intake.process.order_processor import outcome_of_error
from bridge.queue import queries
from bridge.queue.arrivals import Arrival
from bridge.queue.claims import MessageOutcome
from bridge.queue.inbox import Inbox
from bridge.queue.payload_blobs import (
    CHUNK,
    ORPHAN_AGE_MS,
    WRITE_CHUNKS,
    Pause,
    PayloadBlobs,
    count_lost,
    delete_orphans,
    folder_of,
    name_of,
)
from bridge.queue.retention.policy import find_size_cutoff, prune
from bridge.queue.states import QueueEvent
from bridge.store.database import Database
from bridge.store.errors import StoreUnavailable
from tests.bridge.queue.conftest import Intake
from tests.bridge.queue.samples import NOW, arrival

LENGTH = 700_000
LARGE = "x" * LENGTH

sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def stored_bytes(store: Database) -> int:
    """Return the number of bytes in chunks and in files."""
    with store.read() as connection:
        chunks = "SELECT coalesce(sum(length(content)), 0) FROM payload_chunk"
        found = int(connection.execute(text(chunks)).scalar_one())
    if store.file is not None:
        found += sum(path.stat().st_size for path in folder(store).glob("*"))
    return found


def folder(store: Database) -> Path:
    assert store.file is not None
    return folder_of(store.file)


def put_in_files(store: Database) -> list[Path]:
    folder(store).mkdir()
    files = []
    with store.write() as connection:
        for row in connection.execute(text("SELECT identity, digest FROM payload_blob")).all():
            chunks = connection.execute(
                text(
                    "SELECT content FROM payload_chunk "
                    "WHERE identity = :identity AND digest = :digest ORDER BY number"
                ),
                row._asdict(),
            )
            files.append(folder(store) / name_of(row.identity, row.digest))
            files[-1].write_bytes(b"".join(chunks.scalars()))
        connection.execute(text("UPDATE payload_blob SET chunks = 0"))
        connection.execute(text("DELETE FROM payload_chunk"))
    return files


def do_not_pause(_seconds: float) -> None:
    """Continue at once."""


def kill_process(_seconds: float) -> None:
    raise KeyboardInterrupt


def put(store: Database, large: Arrival, pause: Pause = do_not_pause) -> None:
    """Store a content without its message."""
    blobs = PayloadBlobs(store, pause=pause)
    try:
        blobs.store(large)
    finally:
        blobs.close()


def test_readers_get_the_whole_payload(intake: Intake, store: Database) -> None:
    """The page of a message and its worker read the whole payload."""
    large = arrival("A", content=LARGE)
    (receipt,) = intake.enqueue(large)
    (claimed,) = Inbox(store, "node").claim(NOW, 10)
    assert claimed.payload == large.payload
    assert queries.message(store, receipt.message_id).payload == large.payload
    assert stored_bytes(store) == len(large.payload)


def test_a_payload_of_several_reads(intake: Intake, store: Database) -> None:
    """A payload that is read in several parts is complete, and no chunk is in it twice."""
    large = arrival("L", content="".join(map(str, range(500_000))))
    intake.enqueue(large)
    (claimed,) = Inbox(store, "node").claim(NOW, 10)
    assert claimed.payload == large.payload


def test_a_damaged_chunk(intake: Intake, store: Database) -> None:
    """A payload with a changed chunk differs from its digest; without a chunk it is empty."""
    intake.enqueue(arrival("L", content=LARGE))
    change = text("UPDATE payload_chunk SET content = :changed WHERE number = 1")
    with store.write() as connection:
        connection.execute(change, {"changed": b"y" * CHUNK})
    (claimed,) = Inbox(store, "node").claim(NOW, 10)
    assert (claimed.is_damaged, claimed.payload) == (True, b"")
    with store.write() as connection:
        connection.execute(text("DELETE FROM payload_chunk WHERE number = 1"))
    assert queries.message(store, claimed.message_id).payload == b""


def test_a_retransmit_adds_nothing(intake: Intake, store: Database) -> None:
    """A retransmit gets the stored reply, and adds no chunks."""
    (first,) = intake.enqueue(arrival("A", content=LARGE))
    before = stored_bytes(store)
    (second,) = intake.enqueue(arrival("A", content=LARGE, ack=b"another"))
    assert (second.message_id, second.ack, second.duplicate) == (first.message_id, first.ack, True)
    assert stored_bytes(store) == before


def test_another_content_under_its_control_id(intake: Intake, store: Database) -> None:
    first, other = arrival("A", content=LARGE), arrival("A", content=LARGE + "y")
    ids = [intake.enqueue(item)[0].message_id for item in (first, other)]
    assert [queries.message(store, identifier).payload for identifier in ids] == [
        first.payload,
        other.payload,
    ]


def test_an_interrupted_write_is_completed(intake: Intake, store: Database) -> None:
    """A process that dies between two chunks sent no reply, so the sender sends again."""
    large = arrival("A", content=LARGE)
    with pytest.raises(KeyboardInterrupt):
        put(store, large, pause=kill_process)
    (receipt,) = intake.enqueue(large)
    assert queries.message(store, receipt.message_id).payload == large.payload
    assert stored_bytes(store) == len(large.payload)


@sqlite
def test_other_writers_run_between_chunks(store: Database) -> None:
    other, turns = store.writer(), []

    def others_turn(_seconds: float) -> None:
        with other.transaction() as cursor:
            cursor.execute("SELECT count(*) FROM payload_blob")
            turns.append(cursor.fetchone()[0])

    put(store, arrival("A", content=LARGE), pause=others_turn)
    other.close()
    assert turns == [1] * (LENGTH // (CHUNK * WRITE_CHUNKS) + 1)


def test_messages_of_a_batch(intake: Intake, store: Database) -> None:
    small, large = arrival("A"), arrival("B", patient="2", content=LARGE)
    receipts = intake.enqueue_together(small, large)
    assert [queries.message(store, receipt.message_id).payload for receipt in receipts] == [
        small.payload,
        large.payload,
    ]
    assert stored_bytes(store) == len(large.payload)


@sqlite
def test_files_of_earlier_releases(intake: Intake, store: Database) -> None:
    """Files are read and claimed. They are removed with their message."""
    large = arrival("A", content=LARGE)
    (receipt,) = intake.enqueue(large)
    (file,) = put_in_files(store)
    assert queries.message(store, receipt.message_id).payload == large.payload
    intake.enqueue(large)
    assert stored_bytes(store) == file.stat().st_size == len(large.payload)
    (claimed,) = Inbox(store, "node").claim(NOW, 10)
    assert claimed.payload == large.payload
    delete_orphans(store, NOW + ORPHAN_AGE_MS + 1)
    assert file.exists()
    with store.write() as connection:
        connection.execute(text("DELETE FROM message"))
    assert delete_orphans(store, NOW + ORPHAN_AGE_MS + 1) == 1
    assert not folder(store).exists()


@sqlite
def test_a_lost_file_comes_back_with_a_retransmit(intake: Intake, store: Database) -> None:
    """A retransmit stores the content in chunks."""
    large = arrival("A", content=LARGE)
    (receipt,) = intake.enqueue(large)
    (file,) = put_in_files(store)
    file.unlink()
    assert count_lost(store) == 1
    intake.enqueue(large)
    assert count_lost(store) == 0
    assert queries.message(store, receipt.message_id).payload == large.payload


@sqlite
@pytest.mark.parametrize("ruin", [Path.unlink, lambda file: file.write_bytes(b"half")])
def test_a_file_that_is_lost(
    intake: Intake, store: Database, ruin: Callable[[Path], object]
) -> None:
    """A lost file affects its own message only."""
    for item in (arrival("A", content=LARGE), arrival("B", patient="2")):
        intake.enqueue(item)
    (file,) = put_in_files(store)
    ruin(file)
    assert count_lost(store) == 1
    claimed = Inbox(store, "node").claim(NOW, 10)
    assert [bool(message.payload) for message in claimed] == [False, True]


class TestForgetting:
    """Chunks are removed with their message, or after a day without it."""

    def test_orphans(self, intake: Intake, store: Database) -> None:
        """Chunks with a message stay at any age."""
        (receipt,) = intake.enqueue(arrival("A", content=LARGE))
        put(store, arrival("B", content=LARGE))
        whole = stored_bytes(store)
        assert delete_orphans(store, NOW + ORPHAN_AGE_MS - 1) == 0
        assert delete_orphans(store, NOW + ORPHAN_AGE_MS + 1) == 1
        assert stored_bytes(store) == whole // 2
        assert len(queries.message(store, receipt.message_id).payload) > LENGTH

    def test_orphans_of_a_late_retransmit(self, intake: Intake, store: Database) -> None:
        """A retransmit after a day renews the age of its chunks."""
        late = NOW + ORPHAN_AGE_MS
        put(store, arrival("A", content=LARGE))
        put(store, arrival("A", content=LARGE, received_at=late))
        assert delete_orphans(store, late + 1) == 0

    @pytest.mark.parametrize(
        "store_again",
        [
            lambda intake, _: intake.enqueue(arrival("A", content=LARGE)),
            lambda _, store: put(store, arrival("A", content=LARGE, received_at=NOW + 1)),
        ],
        ids=["message", "chunks"],
    )
    def test_orphans_that_get_their_message(
        self, intake: Intake, store: Database, store_again: Callable[[Intake, Database], object]
    ) -> None:
        """A retransmit between the search for orphans and their deletion keeps its chunks."""
        put(store, arrival("A", content=LARGE))
        whole, retransmits = stored_bytes(store), [store_again]

        def after_the_search(_connection: Any, _cursor: Any, statement: str, *_: object) -> None:
            if statement.startswith("SELECT") and retransmits:
                retransmits.pop()(intake, store)

        event.listen(store.engine, "after_cursor_execute", after_the_search)
        try:
            assert delete_orphans(store, NOW + ORPHAN_AGE_MS + 1) == 0
        finally:
            event.remove(store.engine, "after_cursor_execute", after_the_search)
        assert stored_bytes(store) == whole
        assert not retransmits

    @sqlite
    def test_files_without_a_row(self, intake: Intake, store: Database) -> None:
        """Files without a row, also partial ones, are removed. Other files stay."""
        (receipt,) = intake.enqueue(arrival("A", content=LARGE))
        (own,) = put_in_files(store)
        for name in (name_of(1, 2), f"{name_of(1, 2)}.x7.part", "notes.txt"):
            (folder(store) / name).write_text("left")
        delete_orphans(store, NOW)
        assert len(queries.message(store, receipt.message_id).payload) > LENGTH
        assert {path.name for path in folder(store).iterdir()} == {own.name, "notes.txt"}

    def test_sizes(self, intake: Intake, store: Database) -> None:
        """The sizes of the oldest and of the newest message count."""
        intake.enqueue(arrival("A", content=LARGE))
        intake.enqueue(arrival("B", content=LARGE, received_at=NOW + 1))
        assert find_size_cutoff(store, LENGTH // 2) == NOW + 2
        assert find_size_cutoff(store, LENGTH + LENGTH // 2) == NOW + 1
        assert find_size_cutoff(store, 3 * LENGTH) == 0

    def test_retention(self, intake: Intake, store: Database) -> None:
        """The archive gets the whole payload, its size is counted, and its chunks are removed."""
        large = arrival("A", content=LARGE)
        message_id = intake.enqueue(large)[0].message_id
        intake.enqueue(arrival("B", patient="2", received_at=NOW + 1))
        assert find_size_cutoff(store, LENGTH // 2) == NOW + 1
        assert find_size_cutoff(store, 2 * LENGTH) == 0
        inbox = Inbox(store, "node")
        inbox.claim(NOW, 1)
        inbox.settle([MessageOutcome(message_id, QueueEvent.ACCEPTED)], NOW)
        archived: list[bytes] = []

        def archive(_table: str, rows: Sequence[Mapping[str, Any]]) -> None:
            archived.extend(bytes(row["payload"]) for row in rows)

        assert prune(store, NOW + 1, archive=archive).messages == 1
        assert archived == [large.payload]
        assert delete_orphans(store, NOW + ORPHAN_AGE_MS + 1) == 1
        assert stored_bytes(store) == 0


@sqlite
def test_a_file_that_cannot_be_read_now_is_not_lost(
    intake: Intake, store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its message is tried again, and later complete. Others of the batch are not affected."""
    intake.enqueue(arrival("A", content=LARGE))
    intake.enqueue(arrival("B", patient="2", content=LARGE))
    unreadable = min(put_in_files(store))
    read = Path.read_bytes

    def fails(file: Path) -> bytes:
        if file == unreadable:
            raise OSError(errno.EIO, "input/output error")
        return read(file)

    inbox = Inbox(store, "node")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", fails)
        claimed = inbox.claim(NOW, 10)
        with pytest.raises(StoreUnavailable, match="EIO"):
            [queries.message(store, message.message_id) for message in claimed]

    (broken,) = [message for message in claimed if message.unreadable_code]
    (other,) = [message for message in claimed if not message.unreadable_code]
    assert (len(claimed), broken.payload, broken.unreadable_code) == (2, b"", "EIO")
    assert len(other.payload) > LENGTH
    with pytest.raises(ContentUnreadableError) as raised:
        read_job(broken, {})
    outcome = outcome_of_error(broken, raised.value)
    assert (outcome.event, outcome.code) == (QueueEvent.POSTPONED, "content_unreadable")
    inbox.settle([dataclasses.replace(outcome, retry_at=NOW)], NOW)
    (again,) = inbox.claim(NOW, 10)
    assert (again.message_id, again.unreadable_code) == (broken.message_id, "")
    assert len(again.payload) > LENGTH
