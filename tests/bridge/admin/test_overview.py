"""The overview of channels, and the graphs of one, from statistics and alerts."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from sqlalchemy import insert, text

from bridge.admin.lists.deliveries import DeliveryList
from bridge.admin.lists.listing import UNLIMITED, ListDefinition
from bridge.admin.lists.messages import MessageList
from bridge.admin.overview.attention import Attention
from bridge.admin.overview.channels import ChannelState, channel_series
from bridge.admin.overview.channels import overview as overview_of
from bridge.metrics import Metrics
from bridge.monitoring.alerts import update_alerts
from bridge.monitoring.baseline import MINUTE, QUARTER, WEEK
from bridge.monitoring.conditions import DAY, AlertCondition, AlertSeverity, QueueBacklog
from bridge.monitoring.statistics import (
    ALL_LISTENERS,
    HOUR,
    StatisticsRecorder,
    read_history,
    roll_up,
    store_backlogs,
)
from bridge.store.database import Database
from bridge.store.tables import CHANNEL_STATISTICS
from config.sections import ChannelKind
from tests.bridge.admin.lists.test_delivery_list import COUNT, filled
from tests.bridge.message_store import START, MessageStore
from tests.bridge.query_plans import plan_of, recorded_statements

__all__ = ["filled"]

T = 1000 * DAY
"""The beginning of a day, hour and quarter hour, in UTC."""
L, D = ChannelKind.LISTENER, ChannelKind.DESTINATION
RUNNING: Mapping[str, Any] = {
    "sites": ["SITE1"],
    "enabled": True,
    "trouble": "",
    "paused_at": None,
    "loaded": True,
    "open_until": None,
    "active_at": T,
    "certificate": None,
}


CALM = Attention([], complete=True, checked=True)


def overview(
    database: Database,
    channels: Mapping[ChannelKind, Sequence[ChannelState]],
    now: int,
    *,
    limited: bool = False,
) -> dict[str, Any]:
    return overview_of(database, channels, CALM, now, limited=limited)


def state(name: str, **changes: object) -> dict[str, Any]:
    return {**RUNNING, "name": name, **changes}


def receive(
    database: Database, begin: int, minutes: int, number: int = 1, source: str = ""
) -> None:
    """Receive as many messages in each minute, of which one is refused, and run the leader."""
    metrics = Metrics()
    recorder = StatisticsRecorder(metrics, database, source or f"node {begin}")
    for minute in range(minutes):
        at = begin + minute * MINUTE
        metrics.received.labels("orders", "accepted").inc(number - 1)
        metrics.received.labels("orders", "refused").inc()
        metrics.ack_seconds.labels("orders").observe(0.0035)
        recorder.store(at)
        store_backlogs(database, {}, at)


def send(database: Database, now: int, replies: Mapping[str, int]) -> None:
    metrics = Metrics()
    for reply, number in replies.items():
        event = "accepted" if reply == "AA" else "postponed"
        metrics.deliveries.labels("ris", reply, event).inc(number)
        for _ in range(number):
            metrics.reply_seconds.labels("ris").observe(0.012)
    StatisticsRecorder(metrics, database, "courier").store(now)


def rows_of(found: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {row["name"]: row for row in found["channels"]}


def test_figures_of_channels(database: Database) -> None:
    """Latency, the quarter hours of a day, and what was received and sent in it."""
    receive(database, T, 120, number=10)
    now = T + 119 * MINUTE + 30_000
    send(database, now - 20 * MINUTE, {"AA": 3, "AE": 1})
    roll_up(database, now)
    found = overview(database, {L: [state("orders")], D: [state("ris")]}, now)
    orders, ris = rows_of(found)["orders"], rows_of(found)["ris"]
    assert (orders["p50"], orders["p99"]) == (3.5, 4.0)
    assert orders["spark"] == [0] * 88 + [150] * 8
    assert orders["spark_bad"] == [0] * 88 + [15] * 8
    assert ris["p50"] == 13.0
    assert found["totals"] == {"received": 1200, "sent": 3}
    idle = rows_of(overview(database, {L: [state("idle")], D: []}, now))["idle"]
    assert (idle["rate"], idle["errors"], idle["share"], idle["p50"]) == (0, 0, None, None)


def test_the_numbers_are_those_of_the_lists_behind_them(filled: Database) -> None:
    """
    The rate is the rows of the last minute, the errors the failed rows of the last hour; an attempt
    that will be repeated is no error.
    """
    MessageStore(filled).fill(3600, 3700, state="refused")
    now = START + 3700 * 1000
    names = {L: ("ris", "odd", "even", "idle"), D: ("his", "ris")}
    lists: Mapping[ChannelKind, tuple[ListDefinition[Any], str]] = {
        L: (MessageList(), "channel"),
        D: (DeliveryList(), "destination"),
    }
    channels = {kind: [state(name) for name in found] for kind, found in names.items()}

    def shown(at: int) -> dict[tuple[str, str], tuple[int, int]]:
        found = overview(filled, channels, at)["channels"]
        return {(row["kind"], row["name"]): (row["rate"], row["errors"]) for row in found}

    for at in (START + COUNT * 1000, START + 70_000, now):
        for (kind, name), numbers in shown(at).items():
            listed, own = lists[ChannelKind(kind)]
            minute = {own: [name], "since": at - MINUTE}
            failed = {own: [name], "state": ["failed"], "since": at - HOUR}
            with filled.read() as connection:
                counts = [
                    listed.count(connection, filters, UNLIMITED) for filters in (minute, failed)
                ]
            assert [(number, True) for number in numbers] == counts
    assert shown(START + COUNT * 1000)[D, "ris"] == (20, 10)
    assert shown(now)[D, "ris"][0] == 0
    assert shown(now)[L, "odd"] == (30, 50)


def test_the_share_of_errors(database: Database) -> None:
    """Of the messages of the hour; unknown without any."""
    MessageStore(database).fill(1, 4, state="refused")
    now = START + MINUTE
    metrics = Metrics()
    metrics.received.labels("odd", "accepted").inc(6)
    metrics.received.labels("odd", "refused").inc(2)
    StatisticsRecorder(metrics, database, "node").store(now)
    rows = rows_of(overview(database, {L: [state("odd"), state("even")], D: []}, now))
    assert [(row["errors"], row["share"]) for row in (rows["odd"], rows["even"])] == [
        (2, 0.25),
        (2, None),
    ]


def test_queues_of_channels(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits, and since when. A long queue is not counted by listener."""
    MessageStore(database).fill(1, 5, state="queued")
    channels = {L: [state("odd"), state("even"), state("idle")], D: []}
    rows = rows_of(overview(database, channels, START + MINUTE))
    assert {name: (row["waiting"], row["oldest"]) for name, row in rows.items()} == {
        "odd": (3, START + 1000),
        "even": (2, START + 2000),
        "idle": (0, None),
    }
    monkeypatch.setattr("bridge.monitoring.statistics._MAX_COUNTED", 4)
    rows = rows_of(overview(database, channels, START + MINUTE))
    assert {row["waiting"] for row in rows.values()} == {None}


@pytest.mark.parametrize(
    ("changes", "alerts", "expected"),
    [
        ({}, [], "running"),
        ({}, ["parked"], "running"),
        ({}, ["growing"], "growing"),
        ({}, ["quiet"], "silent"),
        ({}, ["growing", "!rejecting"], "refusing"),
        ({}, ["certificate"], "certificate"),
        ({}, ["!certificate"], "expired"),
        ({"open_until": T}, ["growing"], "not_responding"),
        ({"paused_at": T}, ["growing"], "paused"),
        ({"loaded": False}, [], "not_loaded"),
        ({"trouble": "no file"}, [], "start_failed"),
        ({"enabled": False, "paused_at": T}, [], "off"),
    ],
)
def test_states(
    database: Database, changes: Mapping[str, Any], alerts: list[str], expected: str
) -> None:
    """What a person did comes first, then the worst condition."""
    raised = [condition(f"{alert}:destination ris") for alert in alerts]
    update_alerts(database, raised, T, 0)
    found = overview(database, {L: [], D: [state("ris", **changes)]}, T)
    assert rows_of(found)["ris"]["state"] == expected


def condition(key: str) -> AlertCondition:
    """Return a condition, a critical one if the key begins with `!`."""
    severity = AlertSeverity.CRITICAL if key.startswith("!") else AlertSeverity.WARNING
    return AlertCondition(key.removeprefix("!"), severity, f"text of {key}")


def test_problems_come_first(database: Database) -> None:
    """Red before amber, then by the age of the oldest, those that are off last."""
    update_alerts(
        database, [condition("quiet:listener b"), condition("!rejecting:destination d")], T, 0
    )
    channels = {
        L: [state("a", enabled=False), state("odd"), state("even"), state("b"), state("c")],
        D: [state("d")],
    }
    MessageStore(database).fill(1, 3, state="queued")
    found = overview(database, channels, START + MINUTE)
    assert [row["name"] for row in found["channels"]] == ["d", "b", "odd", "even", "c", "a"]
    assert rows_of(found)["d"]["condition"]["severity"] == "red"
    assert rows_of(found)["b"]["condition"] == {
        "severity": "amber",
        "text": "text of quiet:listener b",
    }


def test_a_limited_user(database: Database) -> None:
    """No counts of a shared channel, only alerts that reveal none, no totals."""
    receive(database, T, 3, number=5)
    keys = ("paused:listener orders", "growing:listener orders")
    update_alerts(database, [condition(key) for key in keys], T, 0)
    channels = {L: [state("orders", shared=True)], D: []}
    found = overview(database, channels, T + 2 * MINUTE, limited=True)
    (row,) = found["channels"]
    assert (row["rate"], row["waiting"], row["p50"], row["spark"]) == (None, None, None, [])
    assert row["condition"]["text"] == "text of paused:listener orders"
    assert found["totals"] is None


@pytest.mark.parametrize(
    ("span", "step", "points"),
    [("1h", MINUTE, 60), ("24h", QUARTER, 96), ("7d", HOUR, 168), ("30d", 4 * HOUR, 180)],
)
def test_series_have_all_numbers(database: Database, span: str, step: int, points: int) -> None:
    """Each point has the sum of its time, also what is not summed up yet."""
    receive(database, T, 300, number=2)
    now = T + 299 * MINUTE + 59_999
    roll_up(database, now - 100 * MINUTE)
    found = channel_series(database, L, "orders", span, now)
    assert (found["step"], len(found["p50"]), len(found["waiting"])) == (step, points, points)
    assert found["from"] + (points - 1) * step <= now < found["from"] + points * step
    minutes = min(300, points * step // MINUTE)
    assert sum(found["outcomes"]["accepted"]) == minutes
    assert sum(found["outcomes"]["refused"]) == minutes
    assert sum(found["outcomes"]["done"]) == 0
    assert {value for value in found["p50"] if value is not None} == {3.5}
    assert found["week_before"] is None
    gap = [] if span == "1h" else [(found["from"], T)]
    assert found["gaps"] == gap


def test_a_gap_and_a_queue_in_a_series(database: Database) -> None:
    """While no leader ran, nothing is known; else no row means an empty queue."""
    receive(database, T, 10)
    orders = ("listener", "orders")
    store_backlogs(database, {orders: QueueBacklog(5, 0, T)}, T + 9 * MINUTE + 1000)
    receive(database, T + 20 * MINUTE, 10)
    store_backlogs(database, {ALL_LISTENERS: QueueBacklog(30_000, 0, T)}, T + 25 * MINUTE)
    now = T + 29 * MINUTE
    found = channel_series(database, L, "orders", "1h", now)
    assert found["gaps"] == [(T - 30 * MINUTE, T), (T + 10 * MINUTE, T + 20 * MINUTE)]
    expected = [None] * 30 + [0] * 9 + [5] + [None] * 10 + [0] * 5 + [None] + [0] * 4
    assert found["waiting"] == expected
    assert found["oldest"][39] == 9 * MINUTE + 1000


def test_the_same_hour_last_week(database: Database) -> None:
    """Of minutes, equal parts of their quarter hours, because minutes are kept for a day."""
    receive(database, T, 60, number=3)
    roll_up(database, T + 2 * HOUR)
    now = T + WEEK + 59 * MINUTE
    roll_up(database, now)
    receive(database, T + WEEK, 60, number=7)
    hour = channel_series(database, L, "orders", "1h", now)
    assert hour["week_before"]["outcomes"]["accepted"] == [2.0] * 60
    assert hour["week_before"]["p50"] == [3.5] * 60
    assert sum(hour["outcomes"]["accepted"]) == 360
    day = channel_series(database, L, "orders", "24h", now)
    assert day["week_before"]["outcomes"]["accepted"] == [0] * 92 + [30] * 4
    assert day["outcomes"]["accepted"] == [0] * 92 + [90] * 4
    month = channel_series(database, L, "orders", "30d", now)
    assert sum(month["outcomes"]["accepted"]) == 480


def test_queries_use_indexes(database: Database) -> None:
    """Graphs and sums read a range of the primary key, or of the index by channel."""
    rows = [
        {"span": 1, "at": T + minute * MINUTE, "kind": "listener", "name": f"n{name}", "source": ""}
        for minute in range(400)
        for name in range(50)
    ]
    with database.write() as connection:
        filled = insert(CHANNEL_STATISTICS).values(counts="{}", latency="")
        connection.execute(filled, rows)
        connection.execute(text("ANALYZE"))
    with recorded_statements(database) as statements:
        channel_series(database, L, "orders", "24h", T + HOUR)
        read_history(database, 15, T, T + HOUR)
        roll_up(database, T + HOUR)
    with database.read() as connection:
        plans = [plan_of(connection, statement) for statement in statements]
    statistics = [plan for plan in plans if "channel_statistics" in plan]
    assert statistics
    for plan in statistics:
        assert "SCAN channel_statistics" not in plan, plan
        assert "Seq Scan" not in plan, plan
