"""Which conditions stand, and who has been told: each once, again after a while, and when it is
over.

What comes and goes is held down: told as such, and as over only once it has been gone for a while.

Kept in the database: a restart, or another node, tells nobody a second time. Blocking.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row, text

from bridge.monitoring.conditions import AlertCondition, AlertSeverity
from bridge.store.database import Database


class AlertEvent(StrEnum):
    """Why somebody is told."""

    RAISED = "raised"
    REMINDER = "reminder"
    CLEARED = "cleared"


@dataclass(frozen=True, slots=True)
class AlertNotice:
    """What is to be told of one condition; `raised_at` in ms."""

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
"""So often a condition that was over is told of as a new one; from then on it comes and goes."""

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
    Remember what stands and what is over; give what is to be told now.

    What has become critical is raised once more. Told is what is given: whoever asks next, on
    whatever node, is not given it again before `repeat_after` ms (0: never again). What has come
    back `MOST_RETURNS` times, each within `hold` ms of its end, is over when gone for so long.
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
    """Take back that these were told: nobody could be reached."""
    with database.write() as connection:
        for notice in notices:
            if notice.news is not AlertEvent.CLEARED:
                connection.execute(_TOLD, {"key": notice.condition.key, "now": None})


def list_alerts(database: Database) -> list[dict[str, Any]]:
    """List what stands, then what is over, newest first; times in ms."""
    with database.read() as connection:
        return [dict(row._mapping) for row in connection.execute(_ALL)]  # noqa: SLF001  # its name


def _raising(row: Row[Any]) -> AlertCondition:
    found = _condition(row)
    if row.returns < MAX_RETURNS:
        return found
    return replace(found, text=f"{found.text}; it comes and goes")


def _condition(row: Row[Any]) -> AlertCondition:
    return AlertCondition(row.key, AlertSeverity(row.severity), row.text)
