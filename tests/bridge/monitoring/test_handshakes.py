"""Failed TLS handshakes: counted, logged and stored within bounds, and when they raise an alert."""

from structlog.testing import capture_logs

from bridge.handshake_counts import LOG_SECONDS, MAX_ENTRIES, HandshakeCounts
from bridge.monitoring.channels import HOUR, newest_handshakes, read_handshakes, store_handshakes
from bridge.monitoring.conditions import AlertThresholds, SystemSnapshot, find_conditions
from bridge.store.database import Database
from bridge.store.databases import migrate_bridge
from mllp.tls import HandshakeFailure

EXPIRED = HandshakeFailure("certificate has expired", "CN=ris")
LEFT = HandshakeFailure("the peer closed the connection", is_trouble=False)


def test_a_flood_is_bounded() -> None:
    """A thousand addresses leave a few entries and log lines, and all are counted."""
    counted: list[str] = []
    time = [0.0]
    counts = HandshakeCounts(lambda _, name: counted.append(name), lambda: 1, lambda: time[0])
    with capture_logs() as lines:
        for number in range(1000):
            counts.note("listener", "orders", f"192.0.2.{number}", EXPIRED)
        assert len(lines) <= MAX_ENTRIES
        counts.note("listener", "other", "192.0.2.1", EXPIRED)
        time[0] = LOG_SECONDS
        counts.note("listener", "other", "192.0.2.1", EXPIRED)
    found = counts.take()
    assert len(found) <= MAX_ENTRIES + 2
    assert sum(item.count for key, item in found.items() if key.name == "orders") == 1000
    assert counted.count("orders") == 1000
    assert {line["reason"] for line in lines} <= {EXPIRED.reason, "several reasons"}
    assert counts.take() == {}


def test_failures_are_stored_and_raise_an_alert(database: Database) -> None:
    """Counts of all rounds add up; three in an hour are an alert, a health check is none."""
    migrate_bridge(database)
    now = [1_000_000]
    counts = HandshakeCounts(lambda *_: None, lambda: now[0])

    def alerts() -> list[str]:
        stored = read_handshakes(database)
        snapshot = SystemSnapshot(
            now=now[0], started_at=0, queues={}, last_message={}, paused={}, certificates={},
            handshakes=stored,
        )  # fmt: skip
        return [condition.text for condition in find_conditions(snapshot, AlertThresholds())]

    for _ in range(2):
        counts.note("listener", "orders", "192.0.2.7", EXPIRED)
        store_handshakes(database, "node", counts.take())
        for _ in range(5):
            counts.note("listener", "orders", "192.0.2.9", LEFT)
    store_handshakes(database, "node", counts.take())
    assert alerts() == []
    now[0] += 1000
    counts.note("listener", "orders", "192.0.2.7", EXPIRED)
    store_handshakes(database, "node", counts.take())
    (text,) = alerts()
    assert text == (
        "3 TLS handshakes of listener orders failed, the last with 192.0.2.7: "
        "certificate has expired"
    )
    (failure, *_) = newest_handshakes(database, "listener")["orders"]
    assert (failure["count"], failure["subject"], failure["peer"]) == (3, "CN=ris", "192.0.2.7")
    now[0] += 2 * HOUR
    counts.note("listener", "orders", "192.0.2.7", EXPIRED)
    store_handshakes(database, "node", counts.take())
    (failure, *_) = newest_handshakes(database, "listener")["orders"]
    assert failure["count"] == 1, "the count begins anew after a quiet hour"


def test_few_peers_are_stored(database: Database) -> None:
    """Of each connection the newest peers are kept."""
    migrate_bridge(database)
    now = [0]
    counts = HandshakeCounts(lambda *_: None, lambda: now[0])
    for number in range(3 * MAX_ENTRIES):
        now[0] += 1000
        counts.note("destination", "ris", f"192.0.2.{number}", EXPIRED)
        store_handshakes(database, "node", counts.take())
    stored = newest_handshakes(database, "destination")["ris"]
    assert len(stored) == MAX_ENTRIES
    assert stored[0]["peer"] == f"192.0.2.{3 * MAX_ENTRIES - 1}"
