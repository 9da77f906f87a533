"""Alerts for commands: list them, and send a test notification."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from bridge.monitoring import alerts
from bridge.monitoring.alerts import AlertEvent, AlertNotice
from bridge.monitoring.conditions import AlertCondition, AlertSeverity
from bridge.wiring.alerts import notifiers
from bridge.wiring.stores import bridge_database
from config import load


def list_alerts(home: Path) -> list[dict[str, Any]]:
    """List alerts: the active ones, then those that have ended."""
    with bridge_database(home) as database:
        return [dict(each) for each in alerts.list_alerts(database)]


def send_test_notification(home: Path) -> Iterator[tuple[str, str]]:
    """Send a test notification by each configured way; yield the way and its error ('' if sent)."""
    notice = AlertNotice(
        AlertEvent.RAISED,
        AlertCondition("test", AlertSeverity.WARNING, "a test: nothing is wrong"),
        time.time_ns() // 1_000_000,
    )
    for way, notify in notifiers(load(home)).items():
        try:
            notify([notice])
        except (OSError, httpx.HTTPError) as error:
            yield way, str(error)
        else:
            yield way, ""
