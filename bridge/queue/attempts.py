"""
What receivers sent instead of a positive acknowledgment: failed attempts, and further replies.

An accepted attempt is not stored here. Replies may contain patient data: show them to users who may
read content. Blocking.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select

from bridge.store.database import Database
from bridge.store.tables import DELIVERY_ATTEMPTS

MAX_REPLY_BYTES = 65_536
"""Bytes of a reply that are kept with an attempt."""
MAX_ATTEMPTS = 50
"""The newest attempts and further replies of a delivery that are kept."""


class AttemptKind(StrEnum):
    ATTEMPT = "attempt"
    REPLY = "reply"
    """A further reply to a message whose reply had come before."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """
    A failed attempt or a further reply; times in ms.

    `code` and `detail` are as in the row of the delivery. `retry_at` is the time of the next
    attempt, None if none follows. `reply` is what the receiver sent.
    """

    delivery_id: int
    kind: AttemptKind
    at: int
    code: str
    detail: str = ""
    retry_at: int | None = None
    reply: bytes = b""


_ATTEMPT = DELIVERY_ATTEMPTS.c


def add(connection: Connection, attempts: Iterable[Attempt]) -> None:
    """Store attempts; of each delivery the newest `MAX_ATTEMPTS` are kept."""
    rows: list[dict[str, Any]] = [
        {
            "delivery_id": attempt.delivery_id,
            "kind": attempt.kind.value,
            "at": attempt.at,
            "code": attempt.code,
            "detail": attempt.detail,
            "retry_at": attempt.retry_at,
            "reply": attempt.reply[:MAX_REPLY_BYTES],
        }
        for attempt in attempts
    ]
    if rows:
        connection.execute(insert(DELIVERY_ATTEMPTS), rows)
        for number in sorted({row["delivery_id"] for row in rows}):
            own = _ATTEMPT.delivery_id == number
            newest_first = select(_ATTEMPT.id).where(own).order_by(_ATTEMPT.id.desc())
            oldest_kept = newest_first.limit(1).offset(MAX_ATTEMPTS - 1).scalar_subquery()
            connection.execute(delete(DELIVERY_ATTEMPTS).where(own, _ATTEMPT.id < oldest_kept))


def of_deliveries(database: Database, ids: Sequence[int]) -> dict[int, list[Attempt]]:
    """Return the attempts of deliveries in order, by delivery id."""
    found: dict[int, list[Attempt]] = {}
    if ids:
        own = select(DELIVERY_ATTEMPTS).where(_ATTEMPT.delivery_id.in_(ids))
        with database.read() as connection:
            for row in connection.execute(own.order_by(_ATTEMPT.delivery_id, _ATTEMPT.id)):
                found.setdefault(row.delivery_id, []).append(_attempt(row))
    return found


def last_of_deliveries(database: Database, ids: Sequence[int]) -> dict[int, Attempt]:
    """Return the last attempt or further reply of each delivery that has one."""
    if not ids:
        return {}
    last = (
        select(func.max(_ATTEMPT.id))
        .where(_ATTEMPT.delivery_id.in_(ids))
        .group_by(_ATTEMPT.delivery_id)
    )
    with database.read() as connection:
        rows = connection.execute(select(DELIVERY_ATTEMPTS).where(_ATTEMPT.id.in_(last))).all()
    return {row.delivery_id: _attempt(row) for row in rows}


def forget(connection: Connection, ids: Sequence[int]) -> None:
    """Delete the attempts of deliveries that are deleted."""
    if ids:
        connection.execute(delete(DELIVERY_ATTEMPTS).where(_ATTEMPT.delivery_id.in_(ids)))


def _attempt(row: Row[Any]) -> Attempt:
    return Attempt(
        row.delivery_id,
        AttemptKind(row.kind),
        row.at,
        row.code,
        row.detail,
        row.retry_at,
        bytes(row.reply),
    )
