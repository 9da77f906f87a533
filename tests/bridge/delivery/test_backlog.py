"""A backlog is sent once and in order, and is requeued while the receiver is down."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import event, text

from bridge.delivery.courier import OutcomeWriter
from bridge.queue.deliveries import DeliveryOutcome, DeliveryRequest
from bridge.queue.outbox import Outbox
from bridge.queue.states import QueueEvent, RetryPolicy
from bridge.store.database import Database
from mappings.hl7.header import peek
from tests.bridge.delivery.fixtures import Time, destination
from tests.bridge.delivery.test_faults import unreachable
from tests.bridge.delivery.whole_bridge import Hospital, open_hospital
from tests.eventually import eventually_async

REPORTS = 150
"""More than two batches."""

NUL = "\0"
REFUSE_NUL = (
    "CREATE TRIGGER refuse_nul BEFORE UPDATE ON delivery WHEN NEW.detail = char(0)"
    " BEGIN SELECT RAISE(ABORT, 'NUL'); END"
)
"""Lets SQLite refuse what PostgreSQL refuses."""

WAITING = "SELECT count(*) FROM delivery WHERE state = 'queued'"


def waiting(count: int) -> Iterator[DeliveryRequest]:
    for number in range(count):
        for kind in ("final", "addendum"):
            orders = {"orders": [], "status": "Final", "addenda": 0}
            yield DeliveryRequest("ris", f"R{number}", f"{number}{kind}", kind, 0, orders)


def queue(hospital: Hospital, count: int) -> None:
    with hospital.database.write() as connection:
        assert hospital.outbox.enqueue(connection, waiting(count), 0) == 2 * count
        message = "'MSH|^~\\&|A|B|C|D|2026||ORU^R01|' || release_key || '|P|2.5.1' || :end"
        bytes_of = {"sqlite": f"CAST({message} AS BLOB)"}
        written = bytes_of.get(connection.dialect.name, f"convert_to({message}, 'UTF8')")
        body = (
            f"INSERT INTO delivery_body (delivery_id, payload) SELECT id, {written} FROM delivery"  # noqa: S608
        )
        connection.execute(text(body), {"end": "\r"})


async def test_a_backlog_is_sent_once_and_in_order(tmp_path: Path, database: Database) -> None:
    """Each report precedes its addendum, no message is sent twice, and all outcomes are stored."""
    async with open_hospital(tmp_path, database, destination()) as hospital:
        hospital.couriers[0].pause()
        queue(hospital, REPORTS)
        hospital.couriers[0].resume()
        sent = await hospital.delivered(2 * REPORTS)
        await eventually_async(
            lambda: hospital.rows("SELECT DISTINCT state, attempts FROM delivery") == [("done", 1)]
        )
        names = [peek(message).control_id.decode() for message in sent]
        assert len(set(names)) == len(names) == 2 * REPORTS
        places = {name: place for place, name in enumerate(names)}
        assert all(places[f"{n}final"] < places[f"{n}addendum"] for n in range(REPORTS))
        assert hospital.rows("SELECT count(*) FROM delivery_lane") == [(0,)]


async def test_an_unreachable_receiver_holds_no_claims(tmp_path: Path, database: Database) -> None:
    """Claimed and composed deliveries are requeued, and sent when the receiver is back."""
    away = destination(breaker_after=0)
    async with open_hospital(tmp_path, database, away, reply_with={"ris": unreachable}) as hospital:
        hospital.couriers[0].pause()
        queue(hospital, REPORTS)
        hospital.couriers[0].resume()
        await hospital.delivered(2)
        hospital.couriers[0].pause()
        await eventually_async(lambda: hospital.rows(WAITING) == [(2 * REPORTS,)])
        assert hospital.rows("SELECT count(*) FROM delivery_lane WHERE claimed = 1") == [(0,)]


async def test_outcomes_share_a_commit(database: Database) -> None:
    """Ten outcomes are stored in one transaction, and all of them are reported as stored."""
    outbox, stored = Outbox(database, "test"), list[DeliveryOutcome]()
    with database.write() as connection:
        outbox.enqueue(connection, waiting(10), 0)
    claimed = outbox.claim("ris", 1, 10)
    commits = list[object]()
    note = commits.append
    event.listen(database.engine, "commit", note)
    outcomes = OutcomeWriter(
        outbox, Time(), stored.extend, lambda _, error: pytest.fail(str(error))
    )
    for message in claimed:
        await outcomes.add(DeliveryOutcome(message.delivery_id, QueueEvent.ACCEPTED))
    assert await outcomes.flush()
    event.remove(database.engine, "commit", note)
    assert len(stored) == len(claimed) == 10
    assert len(commits) == 1
    assert not await outcomes.flush()


async def test_an_outcome_that_the_database_refuses(database: Database) -> None:
    """The other outcomes are stored, and all of them end, so that no lease is kept."""
    outbox, ended = Outbox(database, "test"), list[DeliveryOutcome]()
    with database.write() as connection:
        outbox.enqueue(connection, waiting(10), 0)
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql(REFUSE_NUL)
    claimed = outbox.claim("ris", 1, 10)
    outcomes = OutcomeWriter(outbox, Time(), ended.extend, lambda *_: None)
    for message in claimed:
        detail = NUL if message is claimed[3] else ""
        await outcomes.add(DeliveryOutcome(message.delivery_id, QueueEvent.ACCEPTED, detail=detail))
    await outcomes.flush()
    with database.read() as connection:
        rows = connection.execute(text("SELECT id FROM delivery WHERE state = 'claimed'")).all()
    assert [row.id for row in rows] == [claimed[3].delivery_id]
    assert sorted(item.delivery_id for item in ended) == [
        message.delivery_id for message in claimed
    ]


async def test_retries_that_a_clock_put_too_far_off(tmp_path: Path, database: Database) -> None:
    """A retry later than `retry_max` becomes due; a retry within it keeps its time."""
    patient = destination(retry=RetryPolicy(first=1, maximum=3600))
    async with open_hospital(tmp_path, database, patient) as hospital:
        hospital.couriers[0].pause()
        now, hour = hospital.time(), 3_600_000
        with database.write() as connection:
            hospital.outbox.enqueue(connection, waiting(2), now)
            due = text("UPDATE delivery SET not_before = CASE id WHEN 1 THEN :soon ELSE :late END")
            connection.execute(due, {"soon": now + hour // 2, "late": now + 10 * hour})
        await hospital.couriers[0].correct_due_times()
        query = "SELECT not_before FROM delivery WHERE blocked = 0 ORDER BY id"
        times = [time for (time,) in hospital.rows(query)]
        assert times[0] == now + hour // 2
        assert max(times[1:]) < now + hour
