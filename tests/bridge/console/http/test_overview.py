"""The console's overview and connection pages: contract, permissions, figures of running parts."""

import pytest

from bridge.console.http.models.overview import ChannelPageBody, OverviewBody, SeriesBody
from bridge.metrics import Metrics
from bridge.monitoring.alerts import update_alerts
from bridge.monitoring.channels import pause, store_handshakes
from bridge.monitoring.conditions import AlertCondition, AlertSeverity
from bridge.monitoring.statistics import StatisticsRecorder
from config.sections import ChannelKind
from tests.bridge.console.http.running_console import RunningConsole, now_ms

FORBIDDEN, UNKNOWN = 403, 404


def receive(console: RunningConsole, listener: str, number: int) -> None:
    metrics = Metrics()
    metrics.received.labels(listener, "accepted").inc(number)
    metrics.ack_seconds.labels(listener).observe(0.002)
    recorder = StatisticsRecorder(metrics, console.database, f"{listener} {now_ms()}")
    recorder.store(console.clock())


def test_the_overview(console: RunningConsole) -> None:
    """Every channel has a row; the stored delivery waits."""
    receive(console, "orders", 12)
    found = console.call("viewer", "GET", "/api/overview").json()
    OverviewBody.model_validate(found)
    rows = {row["name"]: row for row in found["channels"]}
    assert rows.keys() == {"orders", "north", "stray", "ris", "ris-north", "archive"}
    assert sum(rows["orders"]["spark"]) == 12
    assert rows["ris"]["waiting"] == 1
    assert rows["ris"]["state"] == "not_loaded"
    assert found["totals"] == {"received": 12, "sent": 0}


def test_the_overview_of_a_limited_user(console: RunningConsole) -> None:
    """Own channels with counts, a shared one without, and alerts that reveal no counts."""
    receive(console, "north", 5)
    keys = [f"{about}:destination archive" for about in ("paused", "circuit", "depth", "parked")]
    raised = [AlertCondition(key, AlertSeverity.WARNING, key) for key in keys]
    update_alerts(console.database, raised, now_ms(), 0)
    found = console.call("viewer1", "GET", "/api/overview").json()
    rows = {row["name"]: row for row in found["channels"]}
    assert {name: row["shared"] for name, row in rows.items()} == {
        "orders": False,
        "ris": False,
        "archive": True,
    }
    assert rows["archive"]["waiting"] is None
    assert {need["key"] for need in found["needs"]["groups"]} == {keys[0], keys[1]}
    everything = console.call("viewer", "GET", "/api/overview").json()["needs"]
    assert everything == console.call("viewer", "GET", "/api/attention").json()
    assert {need["key"] for need in everything["groups"]} == set(keys[:3])
    update_alerts(console.database, [], now_ms(), 0)


def test_the_page_of_a_channel(console: RunningConsole) -> None:
    """State, definitions, alerts; the settings only for users who may change them."""
    pause(console.database, ChannelKind.LISTENER, "orders", now_ms(), "ada")
    raised = AlertCondition("paused:listener orders", AlertSeverity.WARNING, "it is paused")
    update_alerts(console.database, [raised], now_ms(), 0)
    chief = console.call("chief", "GET", "/api/channels/listener/orders").json()
    ChannelPageBody.model_validate(chief)
    assert chief["summary"]["state"] == "paused"
    assert chief["paused_by"] == "ada"
    assert chief["settings"]["site"] == "SITE1"
    assert [found["key"] for found in chief["conditions"]] == ["paused:listener orders"]
    assert chief["source"] == "file"
    viewer = console.call("viewer", "GET", "/api/channels/listener/orders").json()
    assert viewer["settings"] == {}
    update_alerts(console.database, [], now_ms(), 0)
    store_handshakes(console.database, "node", {})
    assert console.call("chief", "POST", "/api/channels/listener/orders/resume").is_success


def test_the_series_of_a_channel(console: RunningConsole) -> None:
    receive(console, "stray", 7)
    for span in ("1h", "24h", "7d", "30d"):
        path = f"/api/channels/listener/stray/series?span={span}"
        found = console.call("viewer", "GET", path).json()
        SeriesBody.model_validate(found)
        assert sum(found["outcomes"]["accepted"]) == 7
    invalid = console.call("viewer", "GET", "/api/channels/listener/stray/series?span=2y")
    assert invalid.status_code == 400


@pytest.mark.parametrize(
    ("who", "path", "status"),
    [
        ("viewer1", "listener/north", UNKNOWN),
        ("viewer1", "listener/nothing", UNKNOWN),
        ("viewer1", "listener/north/series", UNKNOWN),
        ("viewer1", "destination/archive", 200),
        ("viewer1", "destination/archive/series", FORBIDDEN),
        ("viewer", "destination/archive/series", 200),
        ("nowhere", "listener/orders", UNKNOWN),
    ],
)
def test_who_may_see_a_channel(console: RunningConsole, who: str, path: str, status: int) -> None:
    """Users limited to sites see shared channels without their counts."""
    assert console.call(who, "GET", f"/api/channels/{path}").status_code == status
