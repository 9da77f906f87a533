"""Retention removes finished, old rows only."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Any

from sqlalchemy import text

from bridge.queue.claims import MessageOutcome
from bridge.queue.deliveries import DeliveryOutcome
from bridge.queue.inbox import Inbox
from bridge.queue.log_tables import log_tables
from bridge.queue.outbox import Outbox
from bridge.queue.retention.policy import PruneResult, prune
from bridge.queue.retention.rows import BATCH, MIN_BATCH, PAUSE_FACTOR, TARGET_SECONDS, next_batch
from bridge.queue.states import QueueEvent, QueueState
from bridge.store.database import Database
from tests.bridge.queue import stored_rows
from tests.bridge.queue.conftest import Intake
from tests.bridge.queue.samples import NOW, arrival, refused, release
from tests.eventually import PATIENCE, eventually

OLD = NOW - 10_000


def test_only_finished_old_messages_are_removed(intake: Intake, store: Database) -> None:
    """Queued, claimed, parked and recent messages stay with their content."""
    inbox = Inbox(store, "node")
    kept = intake.enqueue(*(arrival(patient=str(n), received_at=OLD) for n in range(4)))
    queued, claimed, parked, done = (receipt.message_id for receipt in kept)
    inbox.claim(OLD, 10)
    inbox.release([queued], OLD)
    inbox.settle(
        [MessageOutcome(parked, QueueEvent.GIVEN_UP), MessageOutcome(done, QueueEvent.ACCEPTED)],
        OLD,
    )
    intake.enqueue(refused(received_at=OLD), refused(received_at=NOW))
    pauses: list[float] = []
    pruned = prune(store, NOW - 5000, batch=1, pause=pauses.append)
    assert pruned == PruneResult(messages=2, deliveries=0)
    assert len(pauses) == 2
    left = {row.id: row.state for row in stored_rows.messages(store)}
    assert {queued, claimed, parked} < left.keys()
    assert sorted(left.values()) == [
        QueueState.CLAIMED,
        QueueState.PARKED,
        QueueState.QUEUED,
        QueueState.REFUSED,
    ]
    with store.read() as connection:
        bodies = connection.execute(text("SELECT message_id FROM message_body")).scalars()
        assert set(bodies) == left.keys()


def test_recently_settled_messages_stay(intake: Intake, store: Database) -> None:
    """A message parked for months and applied today is not old."""
    inbox = Inbox(store, "node")
    (receipt,) = intake.enqueue(arrival(received_at=OLD))
    intake.enqueue(arrival(patient="2"))
    inbox.claim(OLD, 1)
    inbox.settle([MessageOutcome(receipt.message_id, QueueEvent.ACCEPTED)], NOW)
    assert prune(store, NOW - 5000).messages == 0
    assert prune(store, NOW + 1).messages == 1


def test_ids_are_not_reused(intake: Intake, store: Database) -> None:
    """The newest row stays, also if all are old, so that the next id is new."""
    receipts = intake.enqueue(*(refused(received_at=OLD) for _ in range(3)))
    assert prune(store, NOW).messages == 2
    (after,) = intake.enqueue(arrival())
    assert after.message_id > receipts[-1].message_id


def test_ids_are_not_reused_by_an_emptied_table(intake: Intake, store: Database) -> None:
    """A message whose id was used before would not enter its lanes."""
    (receipt,) = intake.enqueue(arrival())
    inbox = Inbox(store, "node")
    assert inbox.claim(NOW, 10)
    with store.write() as connection:
        for table in ("message_lane", "message_body", "message"):
            connection.execute(text(f"DELETE FROM {table}"))  # noqa: S608  # our own names
    (after,) = intake.enqueue(arrival())
    assert after.message_id > receipt.message_id
    assert [message.message_id for message in inbox.claim(NOW, 10)] == [after.message_id]


def test_a_later_message_with_the_same_control_id_is_still_known(
    intake: Intake, store: Database
) -> None:
    """Retention forgets the control id of the deleted message only."""
    ignored: dict[str, Any] = {"state": QueueState.IGNORED, "lanes": ()}
    old = arrival("C", content="old", received_at=OLD, **ignored)
    recent = arrival("C", content="recent", received_at=NOW, **ignored)
    intake.enqueue(old)
    intake.enqueue(recent)
    assert prune(store, NOW - 5000).messages == 1
    with closing(log_tables(store)) as log:
        log.prune()
    assert [receipt.duplicate for receipt in intake.enqueue(recent)] == [True]
    assert [receipt.duplicate for receipt in intake.enqueue(old)] == [False]


def test_two_runs_archive_each_row_once(intake: Intake, store: Database) -> None:
    """A second run waits for the batch of the first one, and does not find its rows."""
    intake.enqueue(*(refused(received_at=OLD) for _ in range(3)))
    archived: list[int] = []
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )

    def is_waiting() -> bool:
        with store.read() as connection:
            return bool(connection.execute(waiting).scalar_one())

    with ThreadPoolExecutor(1) as pool:
        runs: list[Future[PruneResult]] = []

        def archive(_: str, rows: Sequence[Mapping[str, Any]]) -> None:
            if not runs:
                runs.append(pool.submit(prune, store, NOW, archive=archive))
                if store.dialect == "postgresql":  # SQLite has one writer
                    eventually(lambda: runs[0].done() or is_waiting())
            archived.extend(row["id"] for row in rows)

        assert prune(store, NOW, archive=archive).messages == 2
        assert runs[0].result(PATIENCE).messages == 0
    assert len(archived) == len(set(archived)) == 2


def test_deliveries(store: Database) -> None:
    """Old delivered results are removed with their bytes."""
    outbox = Outbox(store, "node")
    with store.write() as connection:
        outbox.enqueue(connection, [release(report="R1"), release(report="R2")], OLD)
    first, _ = outbox.claim("ris-results", OLD, 10)
    outbox.store_payloads({first.delivery_id: (b"MSH|", "C1")})
    outbox.settle([DeliveryOutcome(first.delivery_id, QueueEvent.ACCEPTED)], OLD)
    assert prune(store, NOW) == PruneResult(messages=0, deliveries=1)
    with store.read() as connection:
        assert connection.execute(text("SELECT count(*) FROM delivery_body")).scalar_one() == 0


def test_batch_size() -> None:
    """The batch size follows the duration, between a minimum and a maximum."""
    assert next_batch(100, TARGET_SECONDS) == 100
    assert next_batch(100, 2 * TARGET_SECONDS) == 50
    assert next_batch(100, TARGET_SECONDS / 8) == 200
    assert next_batch(MIN_BATCH, 100.0) == MIN_BATCH
    assert next_batch(BATCH, 0.0) == BATCH
    assert next_batch(1, 0.0, max_batch=1) == 1


def test_pauses_between_batches(intake: Intake, store: Database) -> None:
    """Retention pauses between batches for a multiple of the last duration."""
    intake.enqueue(*(refused(received_at=OLD) for _ in range(4)))
    ticks = iter(range(100))
    pauses: list[float] = []
    prune(store, NOW, batch=1, pause=pauses.append, clock=lambda: float(next(ticks)))
    assert pauses == [PAUSE_FACTOR] * 3
