"""`bridge alerts list`: scripts read its JSON."""

import json
from pathlib import Path

from bridge.monitoring.alerts import update_alerts
from bridge.monitoring.conditions import AlertCondition, AlertSeverity
from bridge.store.databases import bridge_database
from tests.bridge.cli.home import Home

PAUSED = AlertCondition("paused:listener a", AlertSeverity.WARNING, "listener a is paused")


def test_former_names_in_json(tmp_path: Path) -> None:
    """JSON has two members also by their names of the release before, with the same values."""
    home = Home(tmp_path / "home")
    home.init()
    with bridge_database(tmp_path / "home") as database:
        for now in (1000, 2000, 3000):  # raised, cleared, raised again
            update_alerts(database, [PAUSED] if now != 2000 else [], now, 0, hold=10_000)
    (alert,) = json.loads(home.ok("alerts", "list", "--json"))
    assert alert["key"] == PAUSED.key
    values = ("1970-01-01T00:00:03.000+00:00", 1)
    assert (alert["notified_at"], alert["recurrences"]) == values
    assert (alert["told_at"], alert["returns"]) == values
