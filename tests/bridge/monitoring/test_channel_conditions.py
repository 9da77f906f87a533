"""
A channel turns amber or red within one minute, in simulated time.

The leader stores the queues every 15 seconds and looks for conditions every 30, as in the service.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import pytest
from sqlalchemy import insert

from bridge.delivery.reply_policy import CircuitBreaker
from bridge.metrics import Metrics
from bridge.monitoring.alerts import AlertMonitor, active_alerts
from bridge.monitoring.baseline import MINUTE, QUARTER, WEEK
from bridge.monitoring.channels import (
    ChannelCircuit,
    pause,
    store_activity,
    store_circuits,
    store_start_failures,
)
from bridge.monitoring.conditions import (
    DAY,
    AlertCondition,
    AlertSeverity,
    AlertThresholds,
    Validity,
)
from bridge.monitoring.statistics import (
    LISTENER,
    StatisticsRecorder,
    read_backlogs,
    store_backlogs,
)
from bridge.queue.states import RetryPolicy
from bridge.store.database import Database
from bridge.store.tables import CHANNEL_STATISTICS
from config.sections import ChannelKind
from tests.bridge.message_store import START, MessageStore

NAMES = frozenset({"listener odd", "listener even", "destination ris"})


@dataclass
class Leader:
    """The periodic jobs of the leader; `step` advances its clock by 15 seconds."""

    database: Database
    now: int = START
    certificates: dict[str, Validity] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.monitor = AlertMonitor(
            self.database,
            AlertThresholds,
            lambda: self.certificates,
            {},
            Metrics(),
            lambda: self.now,
            self.now - DAY,
            0,
            lambda: NAMES,
        )

    def step(self) -> None:
        self.now += 15_000
        store_backlogs(self.database, read_backlogs(self.database), self.now)
        if self.now % 30_000 < 15_000:
            self.monitor.check()

    def severities(self) -> dict[tuple[str, str] | None, str]:
        return {alert.channel: alert.severity.value for alert in active_alerts(self.database)}

    def subjects(self) -> set[str]:
        return {alert.subject for alert in active_alerts(self.database)}

    def seconds_until(self, found: Callable[[], bool]) -> int:
        """Advance until something is found; return the seconds."""
        begun = self.now
        while not found():
            assert self.now - begun < DAY
            self.step()
        return (self.now - begun) // 1000


@pytest.fixture
def leader(database: Database) -> Leader:
    return Leader(database)


RIS = ("destination", "ris")


def refuse(leader: Leader, breaker: CircuitBreaker, metrics: Metrics, number: int) -> None:
    """A destination refuses; its circuit and the counters are stored, as the service does."""
    for _ in range(number):
        breaker.record_reply(refused=True)
        metrics.deliveries.labels("ris", "AE", "postponed").inc()
    store_circuits(leader.database, {"ris": ChannelCircuit(None, breaker.refused)})


def test_a_destination_that_refuses_everything(leader: Leader) -> None:
    """Amber after three refusals, red after ten or ten minutes, and green after one acceptance."""
    breaker, metrics = CircuitBreaker(RetryPolicy(), 3, Random(1)), Metrics()
    recorder = StatisticsRecorder(metrics, leader.database, "a")
    refuse(leader, breaker, metrics, 2)
    recorder.store(leader.now)
    for _ in range(4):
        leader.step()
    assert leader.severities() == {}
    refuse(leader, breaker, metrics, 1)
    recorder.store(leader.now)
    assert leader.seconds_until(lambda: leader.severities() == {RIS: "warning"}) <= 60
    assert leader.seconds_until(lambda: leader.severities() == {RIS: "critical"}) <= 10 * 60
    breaker.record_reply(refused=False)
    refuse(leader, breaker, metrics, 0)
    assert leader.seconds_until(lambda: leader.severities() == {}) <= 60
    refuse(leader, breaker, metrics, 10)
    assert leader.seconds_until(lambda: leader.severities() == {RIS: "critical"}) <= 60


def test_a_growing_queue(leader: Leader, database: Database) -> None:
    """Fifty that wait are amber, unless the oldest is new or the queue gets shorter."""
    store = MessageStore(database)
    store.fill(1, 120, state="queued")
    leader.now = START + 120_000
    found = leader.seconds_until(lambda: leader.subjects() == {"growing"})
    assert found <= 60
    channels = {alert.channel for alert in active_alerts(database)}
    assert channels == {("listener", "odd"), ("listener", "even")}
    with database.write() as connection:
        connection.exec_driver_sql("UPDATE message SET state = 'done' WHERE id <= 10")
    leader.step()
    leader.step()
    leader.monitor.check()
    assert leader.subjects() == set()


def test_a_burst_is_not_a_growing_queue(leader: Leader, database: Database) -> None:
    """A queue whose oldest message has just arrived is being worked off."""
    MessageStore(database).fill(1, 120, state="queued")
    leader.now = START + 30_000
    leader.monitor.check()
    assert leader.subjects() == set()


def usual_weeks(database: Database, now: int, a_quarter: int) -> None:
    """Store four weeks with as many messages in each quarter hour, and the minutes of a day."""
    first = now - now % QUARTER
    rows = [
        *((15, at, a_quarter) for at in range(first - 4 * WEEK - DAY, first, QUARTER)),
        *((1, at, a_quarter // 15) for at in range(now - DAY, now, MINUTE)),
    ]
    values = [
        {
            "span": span,
            "at": at - at % MINUTE,
            "kind": LISTENER,
            "name": "odd",
            "source": "",
            "counts": json.dumps({"accepted": number}),
            "latency": "",
        }
        for span, at, number in rows
    ]
    with database.write() as connection:
        connection.execute(insert(CHANNEL_STATISTICS), values)


def test_a_listener_that_hears_nothing(leader: Leader, database: Database) -> None:
    """Amber a minute after its usual pause, red after five; green with the next message."""
    usual_weeks(database, leader.now, 600)
    store_activity(database, {(ChannelKind.LISTENER, "odd"): leader.now})
    odd = ("listener", "odd")
    leader.step()
    assert leader.severities() == {}
    assert leader.seconds_until(lambda: leader.severities() == {odd: "warning"}) <= 2 * 60
    assert leader.seconds_until(lambda: leader.severities() == {odd: "critical"}) <= 5 * 60
    (alert,) = active_alerts(database)
    assert alert.key == "quiet:listener odd"
    assert "has received nothing for 5 min; it usually has" in alert.text
    store_activity(database, {(ChannelKind.LISTENER, "odd"): leader.now})
    assert leader.seconds_until(lambda: leader.severities() == {}) <= 60


@pytest.mark.parametrize("why", ["one week", "paused", "few messages"])
def test_silence_that_is_no_condition(leader: Leader, database: Database, why: str) -> None:
    usual_weeks(database, leader.now, 15 if why == "few messages" else 600)
    if why == "one week":
        with database.write() as connection:
            old = CHANNEL_STATISTICS.c.at < leader.now - WEEK - DAY
            connection.execute(CHANNEL_STATISTICS.delete().where(old))
    if why == "paused":
        pause(database, ChannelKind.LISTENER, "odd", leader.now, "ada")
    store_activity(database, {(ChannelKind.LISTENER, "odd"): leader.now})
    for _ in range(20):
        leader.step()
    assert "quiet" not in leader.subjects()


def test_a_certificate_near_its_end(leader: Leader) -> None:
    """Amber two weeks before, red when it has expired."""
    ends = leader.now + 14 * DAY + 10_000
    leader.certificates["certificate of listener odd"] = Validity(0, ends)
    odd = ("listener", "odd")
    leader.monitor.check()
    assert leader.severities() == {}
    assert leader.seconds_until(lambda: leader.severities() == {odd: "warning"}) <= 60
    leader.now = ends - 1
    assert leader.seconds_until(lambda: leader.severities() == {odd: "critical"}) <= 60


def test_a_listener_that_did_not_start(leader: Leader, database: Database) -> None:
    reasons = {"odd": "its port is in use", "removed": "no file"}
    store_start_failures(database, ChannelKind.LISTENER, "node", reasons, leader.now + 15_000)
    odd = ("listener", "odd")
    assert leader.seconds_until(lambda: leader.severities() == {odd: "critical"}) <= 60


@pytest.mark.parametrize(
    ("key", "channel"),
    [
        ("silence:orders", ("listener", "orders")),
        ("certificate:ca of destination ris", ("destination", "ris")),
        ("rejecting:destination ris", ("destination", "ris")),
        ("parked:the inbox", None),
        ("concern:message 7", None),
        ("disk", None),
        ("tls:service report service", None),
    ],
)
def test_the_channel_of_a_condition(key: str, channel: tuple[str, str] | None) -> None:
    """Each condition has an action; those about a listener or destination name it."""
    condition = AlertCondition(key, AlertSeverity.WARNING, "")
    assert condition.channel == channel
    assert condition.action


def test_parked_messages_are_of_their_listener(leader: Leader, database: Database) -> None:
    """The inbox is one queue, but each listener is amber for its own parked messages."""
    MessageStore(database).fill(1, 5, state="parked")
    leader.monitor.check()
    found = {alert.channel: alert.text for alert in active_alerts(database)}
    assert found == {
        ("listener", "odd"): "3 parked entries of listener odd need attention",
        ("listener", "even"): "2 parked entries of listener even need attention",
    }
