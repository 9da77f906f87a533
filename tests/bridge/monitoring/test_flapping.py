"""Files and disks of all nodes, and flapping conditions."""

from dataclasses import replace

from bridge.monitoring import node_files
from bridge.monitoring.alerts import AlertEvent, list_alerts, update_alerts
from bridge.monitoring.conditions import (
    DAY,
    AlertCondition,
    AlertSeverity,
    AlertThresholds,
    NodeFiles,
    SystemSnapshot,
    Validity,
    find_conditions,
)
from bridge.monitoring.node_files import NodeAddress
from bridge.store.database import Database

NOW = 100 * DAY
SOON, FINE, PAST = Validity(0, NOW + 3 * DAY), Validity(0, NOW + 90 * DAY), Validity(0, NOW - 1)
CERTIFICATE = "certificate of listener a"
SIGHT = SystemSnapshot(NOW, NOW, {}, {}, {}, {CERTIFICATE: FINE}, disk_free=99, host="one")
FLAP = AlertCondition("depth:x", AlertSeverity.CRITICAL, "1000 entries wait in x")


def texts(*other_nodes: NodeFiles) -> list[str]:
    sight = replace(SIGHT, other_nodes=other_nodes)
    return [each.text for each in find_conditions(sight, AlertThresholds(disk_free=50))]


def test_files_of_other_nodes(database: Database) -> None:
    """Conditions of other nodes name their host. The check ignores expired entries and its own."""
    for number, (node, lives, free) in enumerate(
        [("b", {CERTIFICATE: SOON}, 10), ("c", {CERTIFICATE: PAST}, None), ("me", {}, 1)]
    ):
        node_files.save_node_files(
            database, NodeAddress(node, f"host-{node}"), lives, free, NOW + number
        )
    assert node_files.files_of_other_nodes(database, "me", NOW + 1) == []
    near, *further = node_files.files_of_other_nodes(database, "me", NOW - 1)
    assert texts(near) == [
        f"the {CERTIFICATE} expires in 3 d on host-b",
        "less than 0 MiB are free on the disk of HOME on host-b",
    ]
    assert texts(near, *further)[0] == f"the {CERTIFICATE} has expired on host-c"
    assert texts() == []
    assert texts(NodeFiles("one", {CERTIFICATE: SOON}, 99)) == [f"the {CERTIFICATE} expires in 3 d"]
    node_files.save_node_files(database, NodeAddress("b", "host-b"), {}, 99, NOW + 2 * DAY)
    assert node_files.files_of_other_nodes(database, "me", 0) == [NodeFiles("host-b", {}, 99)]


def test_a_flapping_condition(database: Database) -> None:
    """A condition is raised three times, then as flapping, and cleared after a longer absence."""
    notices = []
    for now in range(40):
        conditions = [FLAP] if now % 2 == 0 else []
        notices += update_alerts(database, conditions, now, 0, hold=10)
    assert [each.event for each in notices] == [AlertEvent.RAISED, AlertEvent.CLEARED] * 3 + [
        AlertEvent.RAISED
    ]
    assert notices[-1].condition.text == f"{FLAP.text}; the condition keeps returning"
    assert list_alerts(database)[0]["cleared_at"] is None
    assert update_alerts(database, [], 47, 0, hold=10) == []
    (router,) = update_alerts(database, [], 48, 0, hold=10)
    assert router.event is AlertEvent.CLEARED
    (anew,) = update_alerts(database, [FLAP], 58, 0, hold=10)
    assert anew.condition.text == FLAP.text
