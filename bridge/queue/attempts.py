"""
What receivers sent instead of a positive acknowledgment: failed attempts, and further replies.

An accepted attempt is not stored here. Replies may contain patient data: show them to users who may
read content. Blocking.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row, bindparam, text

from bridge.store.database import Database

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


_INSERT = text("""
    INSERT INTO delivery_attempt (delivery_id, kind, at, code, detail, retry_at, reply)
    VALUES (:delivery_id, :kind, :at, :code, :detail, :retry_at, :reply)
""")
_DELETE_OLD = text("""
    DELETE FROM delivery_attempt WHERE delivery_id = :delivery_id AND id < (
        SELECT id FROM delivery_attempt WHERE delivery_id = :delivery_id
        ORDER BY id DESC LIMIT 1 OFFSET :kept
    )
""")
_SELECT = text(
    "SELECT delivery_id, kind, at, code, detail, retry_at, reply FROM delivery_attempt "
    "WHERE delivery_id IN :ids ORDER BY delivery_id, id"
).bindparams(bindparam("ids", expanding=True))
_SELECT_LAST = text("""
    SELECT delivery_id, kind, at, code, detail, retry_at, reply FROM delivery_attempt
    WHERE id IN (
        SELECT max(id) FROM delivery_attempt WHERE delivery_id IN :ids GROUP BY delivery_id
    )
""").bindparams(bindparam("ids", expanding=True))
_DELETE = text("DELETE FROM delivery_attempt WHERE delivery_id IN :ids").bindparams(
    bindparam("ids", expanding=True)
)


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
        connection.execute(_INSERT, rows)
        old = [
            {"delivery_id": number, "kept": MAX_ATTEMPTS - 1}
            for number in sorted({row["delivery_id"] for row in rows})
        ]
        connection.execute(_DELETE_OLD, old)


def of_deliveries(database: Database, ids: Sequence[int]) -> dict[int, list[Attempt]]:
    """Return the attempts of deliveries in order, by delivery id."""
    found: dict[int, list[Attempt]] = {}
    if ids:
        with database.read() as connection:
            for row in connection.execute(_SELECT, {"ids": list(ids)}):
                found.setdefault(row.delivery_id, []).append(_attempt(row))
    return found


def last_of_deliveries(database: Database, ids: Sequence[int]) -> dict[int, Attempt]:
    """Return the last attempt or further reply of each delivery that has one."""
    if not ids:
        return {}
    with database.read() as connection:
        rows = connection.execute(_SELECT_LAST, {"ids": list(ids)}).all()
    return {row.delivery_id: _attempt(row) for row in rows}


def forget(connection: Connection, ids: Sequence[int]) -> None:
    """Delete the attempts of deliveries that are deleted."""
    if ids:
        connection.execute(_DELETE, {"ids": list(ids)})


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
