"""Counters of processes become statistics of channels by minute, quarter hour and hour."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import event, select

from bridge.delivery.reply_policy import ReplyKind
from bridge.metrics import FAST, Metrics
from bridge.monitoring.baseline import MINUTE, QUARTER
from bridge.monitoring.conditions import DAY, QueueBacklog
from bridge.monitoring.statistics import (
    DESTINATION,
    HOUR,
    LISTENER,
    PRESENCE,
    ChannelKey,
    StatisticsRecorder,
    outcome_of_attempt,
    percentile,
    read_history,
    roll_up,
    store_backlogs,
    waiting_before,
)
from bridge.queue.deliveries import NOT_CONNECTED
from bridge.queue.states import QueueEvent
from bridge.store.database import Database
from bridge.store.errors import StoreError
from bridge.store.tables import CHANNEL_STATISTICS

T = 1000 * DAY
"""The beginning of a day, hour and quarter hour, in UTC."""
ORDERS: ChannelKey = (LISTENER, "orders")
RIS: ChannelKey = (DESTINATION, "ris")


def counts(
    database: Database, span: int, begin: int, end: int, key: ChannelKey = ORDERS
) -> dict[int, dict[str, int]]:
    history = read_history(database, span, begin, end)
    return {at: dict(figures.counts) for at, figures in history.get(key, {}).items()}


def receive(metrics: Metrics, number: int, outcome: str = "accepted") -> None:
    metrics.received.labels("orders", outcome).inc(number)


def test_both_processes_of_two_nodes_are_added(database: Database) -> None:
    """The intake counts what it answered, the service what it applied and sent."""
    for node in ("a", "b"):
        intake, service = Metrics(), Metrics()
        receive(intake, 3)
        receive(intake, 1, "retransmit")
        intake.ack_seconds.labels("orders").observe(0.0035)
        service.applied.labels("orders", "accepted", "").inc(2)
        service.applied.labels("orders", "postponed", "timeout").inc(9)
        service.deliveries.labels("ris", "AA", "accepted").inc()
        service.deliveries.labels("ris", "AE", "given up").inc()
        service.reply_seconds.labels("ris").observe(0.05)
        for name, metrics in (("intake", intake), ("service", service)):
            StatisticsRecorder(metrics, database, f"{node} {name}").store(T + 5)
    found = read_history(database, 1, T, T + MINUTE)
    assert found[ORDERS][T].counts == {"accepted": 6, "retransmit": 2, "done": 4}
    assert found[RIS][T].counts == {"delivered": 2, "refused": 2}
    assert percentile(found[ORDERS][T].latency, 0.5) == 3.5
    assert percentile(found[RIS][T].latency, 0.5) == 50.0


def test_a_minute_is_replaced_and_not_added(database: Database) -> None:
    """Several stores within a minute leave the sum; the next minute begins with what is new."""
    metrics = Metrics()
    recorder = StatisticsRecorder(metrics, database, "a")
    for seconds in (0, 15, 30, 45, 60, 75):
        receive(metrics, 10)
        recorder.store(T + seconds * 1000)
    recorder.store(T + 90_000)
    assert counts(database, 1, T, T + HOUR) == {
        T: {"accepted": 40},
        T + MINUTE: {"accepted": 20},
    }


def test_a_restart_adds_to_the_minute(database: Database) -> None:
    """The counters of a new process begin at 0."""
    for start in (1, 2):
        metrics = Metrics()
        receive(metrics, start)
        StatisticsRecorder(metrics, database, f"a {start}").store(T)
    assert counts(database, 1, T, T + MINUTE) == {T: {"accepted": 3}}


def test_a_clock_that_is_set_back_loses_nothing(database: Database) -> None:
    metrics = Metrics()
    recorder = StatisticsRecorder(metrics, database, "a")
    for at in (T, T + MINUTE, T, T + MINUTE):
        receive(metrics, 1)
        recorder.store(at)
    assert counts(database, 1, T, T + HOUR) == {
        T: {"accepted": 2},
        T + MINUTE: {"accepted": 2},
    }


@contextmanager
def failing_commits(database: Database, *, after: bool) -> Iterator[None]:
    """Break each commit, before or after it is done."""

    def fail(*_: object) -> None:
        raise ConnectionError

    name = "commit"
    if after:
        original = database.engine.dialect.do_commit

        def commit(connection: object) -> None:
            original(connection)  # type: ignore[arg-type]
            fail()

        database.engine.dialect.do_commit = commit  # type: ignore[assignment,method-assign]
        try:
            yield
        finally:
            database.engine.dialect.do_commit = original  # type: ignore[method-assign]
        return
    event.listen(database.engine, name, fail)
    try:
        yield
    finally:
        event.remove(database.engine, name, fail)


@pytest.mark.parametrize("after", [False, True])
def test_a_failed_store_is_repeated_exactly_once(database: Database, *, after: bool) -> None:
    """Also if the commit has succeeded, and the next attempt is in the next minute."""
    metrics = Metrics()
    recorder = StatisticsRecorder(metrics, database, "a")
    receive(metrics, 5)
    with failing_commits(database, after=after), pytest.raises((StoreError, ConnectionError)):
        recorder.store(T)
    receive(metrics, 2)
    recorder.store(T + MINUTE)
    receive(metrics, 1)
    recorder.store(T + 2 * MINUTE)
    found = counts(database, 1, T, T + HOUR)
    assert sum(row["accepted"] for row in found.values()) == 8


def test_outcomes_of_attempts() -> None:
    """Each kind of reply has an outcome; only a positive one is a delivery."""
    accepted, postponed = QueueEvent.ACCEPTED.value, QueueEvent.POSTPONED.value
    assert outcome_of_attempt("AA", accepted) == "delivered"
    assert outcome_of_attempt("", NOT_CONNECTED) == "not_connected"
    assert outcome_of_attempt("", QueueEvent.GIVEN_UP.value) == "parked"
    silent = {kind for kind in ReplyKind if outcome_of_attempt(kind, postponed) == "unanswered"}
    assert silent == {ReplyKind.MISMATCH, ReplyKind.SILENCE, ReplyKind.GARBAGE}
    assert outcome_of_attempt("AE", QueueEvent.GIVEN_UP.value) == "refused"


def test_percentiles() -> None:
    """They lie within the bucket of the observation; without one there is none."""
    metrics = Metrics()
    observe = metrics.ack_seconds.labels("orders").observe
    for milliseconds in range(1, 101):
        observe(milliseconds / 1000)
    (buckets,) = metrics.ack_seconds.values().values()
    assert percentile(buckets, 0.5) == pytest.approx(50, rel=0.05)
    assert percentile(buckets, 0.99) == pytest.approx(99, rel=0.2)
    assert percentile([0] * len(buckets), 0.5) is None
    assert percentile([], 0.99) is None
    observe(3600)
    assert percentile(metrics.ack_seconds.values()["orders",], 1.0) == 1000 * FAST[-1]


def fill(database: Database, begin: int, minutes: int, number: int = 1) -> None:
    metrics = Metrics()
    recorder = StatisticsRecorder(metrics, database, f"fill {begin}")
    for minute in range(minutes):
        receive(metrics, number)
        metrics.ack_seconds.labels("orders").observe(0.002)
        recorder.store(begin + minute * MINUTE)


def test_sums_keep_all_numbers(database: Database) -> None:
    """Quarter hours and hours have the sums of their minutes, and may be computed again."""
    fill(database, T, 130)
    store_backlogs(database, {ORDERS: QueueBacklog(7, 0, T + 60_000)}, T + 80_000)
    store_backlogs(database, {ORDERS: QueueBacklog(3, 0, T + 85_000)}, T + 85_000)
    now = T + 131 * MINUTE
    for _ in range(2):
        roll_up(database, now)
    with database.read() as connection:
        rows = connection.execute(select(CHANNEL_STATISTICS)).all()
    stored = {
        (row.span, row.at): (row.counts, row.waiting, row.oldest)
        for row in rows
        if row.kind == LISTENER and row.span != 1
    }
    quarter = '{"accepted":15}'
    assert stored == {
        **{(15, T + n * QUARTER): (quarter, None, None) for n in range(1, 8)},
        (15, T): (quarter, 7, 20_000),
        (60, T): ('{"accepted":60}', 7, 20_000),
        (60, T + HOUR): ('{"accepted":60}', None, None),
    }
    for span, expected in ((15, [15] * 8 + [10]), (60, [60, 60, 10])):
        found = read_history(database, span, T, now)[ORDERS]
        assert [found[at].counts["accepted"] for at in sorted(found)] == expected
        assert sum(sum(figures.latency) for figures in found.values()) == 130
    assert read_history(database, 15, T, now)[PRESENCE].keys() == {T}


def test_late_minutes_are_included_in_sums(database: Database) -> None:
    """A node that was slow stores its minute after the quarter hour was summed up."""
    fill(database, T, 15)
    roll_up(database, T + 16 * MINUTE)
    fill(database, T + 14 * MINUTE, 1, number=100)
    roll_up(database, T + 17 * MINUTE)
    assert counts(database, 15, T, T + HOUR) == {T: {"accepted": 115}}


def test_sums_after_a_time_without_a_leader(database: Database) -> None:
    """All quarter hours since the last sum are summed up."""
    fill(database, T, 15)
    roll_up(database, T + 16 * MINUTE)
    fill(database, T + 15 * MINUTE, 300)
    roll_up(database, T + 315 * MINUTE)
    with database.read() as connection:
        spans = select(CHANNEL_STATISTICS.c.at).where(CHANNEL_STATISTICS.c.span == 60)
        hours = connection.scalars(spans.order_by(CHANNEL_STATISTICS.c.at)).all()
    assert hours == [T + n * HOUR for n in range(5)]


def test_old_rows_are_deleted_and_their_sums_kept(database: Database) -> None:
    fill(database, T, 15)
    roll_up(database, T + QUARTER)
    roll_up(database, T + HOUR)
    roll_up(database, T + 27 * HOUR)
    with database.read() as connection:
        spans = connection.scalars(select(CHANNEL_STATISTICS.c.span).distinct()).all()
    assert sorted(spans) == [15, 60]
    roll_up(database, T + 401 * DAY)
    with database.read() as connection:
        assert connection.execute(select(CHANNEL_STATISTICS)).all() == []


def test_buckets_of_an_earlier_release_are_ignored(database: Database) -> None:
    fill(database, T, 1)
    with database.write() as connection:
        connection.execute(CHANNEL_STATISTICS.update().values(latency="[1,2,3]"))
    (figures,) = read_history(database, 1, T, T + MINUTE)[ORDERS].values()
    assert figures.latency == []
    assert figures.counts == {"accepted": 1}


def test_the_queue_of_the_minute_before(database: Database) -> None:
    store_backlogs(database, {RIS: QueueBacklog(60, 0, T)}, T + 50_000)
    store_backlogs(database, {RIS: QueueBacklog(80, 0, T)}, T + 60_000)
    assert waiting_before(database, [RIS, ORDERS], T + 70_000) == {RIS: 60}
    assert waiting_before(database, [ORDERS], T + 70_000) == {}
