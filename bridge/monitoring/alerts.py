"""
Alerts: conditions with the notices sent for them, stored in the database. Blocking.

A condition causes a notice when it begins, reminders while it lasts, and a notice when it ends. A
flapping condition is reported as such, and as ended only after it has been gone for a while. After
a restart, or on another node, no notice is sent twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row, text

from bridge.monitoring.conditions import AlertCondition, AlertSeverity
from bridge.store.database import Database


class AlertEvent(StrEnum):
    """The reason of a notice."""

    RAISED = "raised"
    REMINDER = "reminder"
    CLEARED = "cleared"


@dataclass(frozen=True, slots=True)
class AlertNotice:
    """A notice about one condition; `raised_at` in ms."""

    news: AlertEvent
    condition: AlertCondition
    raised_at: int


_STANDING = text("SELECT * FROM alert WHERE cleared_at IS NULL")
_RAISE = text("""
    INSERT INTO alert (key, severity, text, raised_at, seen_at)
    VALUES (:key, :severity, :text, :now, :now)
    ON CONFLICT (key) DO UPDATE SET severity = :severity, text = :text, seen_at = :now,
        raised_at = CASE WHEN alert.cleared_at IS NULL THEN alert.raised_at ELSE :now END,
        told_at = CASE
            WHEN alert.cleared_at IS NULL AND (alert.severity = :severity OR :severity = 'warning')
            THEN alert.told_at END,
        returns = CASE
            WHEN alert.cleared_at IS NULL THEN alert.returns
            WHEN :now - alert.cleared_at < :hold THEN alert.returns + 1
            ELSE 0 END,
        cleared_at = NULL
""")
_CLEAR = text("UPDATE alert SET cleared_at = :now WHERE key = :key AND cleared_at IS NULL")
_TOLD = text("UPDATE alert SET told_at = :now WHERE key = :key")
_ALL = text("SELECT * FROM alert ORDER BY cleared_at IS NOT NULL, raised_at DESC")
MAX_RETURNS = 3
"""A condition that returned this many times is flapping."""

_KEPT = 90 * 86_400_000
_FORGET = text("DELETE FROM alert WHERE cleared_at < :before")


def update_alerts(
    database: Database,
    standing: Sequence[AlertCondition],
    now: int,
    repeat_after: int,
    hold: int = 0,
) -> list[AlertNotice]:
    """
    Store the current conditions and return the notices to send.

    A condition that has become critical is raised again. Returned notices count as sent: no node
    gets them again before `repeat_after` ms (0: never). A condition that returned `MAX_RETURNS`
    times, each time within `hold` ms, is cleared after it has been gone for `hold` ms.
    """
    with database.write() as connection:
        database.serialize(connection, "alerts")
        before = {row.key: row for row in connection.execute(_STANDING)}
        for each in standing:
            parameters = {"key": each.key, "severity": each.severity.value, "text": each.text}
            connection.execute(_RAISE, {**parameters, "now": now, "hold": hold})
        notices = [*_raised(connection, now, repeat_after)]
        keys = {each.key for each in standing}
        for key, row in before.items():
            if key not in keys and not _held(row, now, hold):
                connection.execute(_CLEAR, {"key": key, "now": now})
                if row.told_at is not None:
                    notices.append(AlertNotice(AlertEvent.CLEARED, _condition(row), row.raised_at))
        for notice in notices:
            connection.execute(_TOLD, {"key": notice.condition.key, "now": now})
        connection.execute(_FORGET, {"before": now - _KEPT})
        return notices


def _held(row: Row[Any], now: int, hold: int) -> bool:
    return bool(row.returns >= MAX_RETURNS and now - row.seen_at < hold)


def _raised(connection: Connection, now: int, repeat_after: int) -> list[AlertNotice]:
    notices = []
    for row in connection.execute(_STANDING).all():
        if row.seen_at != now:
            continue
        if row.told_at is None:
            notices.append(AlertNotice(AlertEvent.RAISED, _raising(row), row.raised_at))
        elif repeat_after and now - row.told_at >= repeat_after:
            notices.append(AlertNotice(AlertEvent.REMINDER, _condition(row), row.raised_at))
    return notices


def mark_unsent(database: Database, notices: Sequence[AlertNotice]) -> None:
    """Mark notices as not sent, because every way to send them failed."""
    with database.write() as connection:
        for notice in notices:
            if notice.news is not AlertEvent.CLEARED:
                connection.execute(_TOLD, {"key": notice.condition.key, "now": None})


def list_alerts(database: Database) -> list[dict[str, Any]]:
    """List active alerts, then cleared ones, newest first; times in ms."""
    with database.read() as connection:
        return [dict(row._mapping) for row in connection.execute(_ALL)]  # noqa: SLF001  # public in SQLAlchemy


def _raising(row: Row[Any]) -> AlertCondition:
    found = _condition(row)
    if row.returns < MAX_RETURNS:
        return found
    return replace(found, text=f"{found.text}; it comes and goes")


def _condition(row: Row[Any]) -> AlertCondition:
    return AlertCondition(row.key, AlertSeverity(row.severity), row.text)
