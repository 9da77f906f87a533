"""Failed TLS handshakes as stored for operators: the newest of each connection. Blocking."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import text

from bridge.handshake_counts import MAX_ENTRIES, HandshakeCount, HandshakeKey
from bridge.store.database import Database

HOUR = 3_600_000  # ms

_ADD = text("""
    INSERT INTO handshake_failure
        (kind, name, node, peer, reason, subject, is_trouble, count, first_at, last_at)
    VALUES (:kind, :name, :node, :peer, :reason, :subject, :is_trouble, :count, :first_at, :last_at)
    ON CONFLICT (kind, name, node, peer, reason) DO UPDATE SET
        count = CASE WHEN handshake_failure.last_at < :last_at - :hour THEN :count
            ELSE handshake_failure.count + :count END,
        first_at = CASE WHEN handshake_failure.last_at < :last_at - :hour THEN :first_at
            ELSE handshake_failure.first_at END,
        subject = :subject, last_at = :last_at
""")
_DELETE_OLD = text("""
    DELETE FROM handshake_failure WHERE kind = :kind AND name = :name AND last_at < (
        SELECT last_at FROM handshake_failure WHERE kind = :kind AND name = :name
        ORDER BY last_at DESC LIMIT 1 OFFSET :kept
    )
""")
_SELECT = text("""
    SELECT kind, name, peer, reason, subject, is_trouble, count, first_at, last_at
    FROM handshake_failure ORDER BY last_at DESC
""")


@dataclass(frozen=True, slots=True)
class StoredHandshake:
    """
    Failed handshakes of one peer for one reason; times in ms.

    `count` counts those that followed one another within an hour each.
    """

    kind: str
    name: str
    peer: str
    reason: str
    subject: str
    is_trouble: bool
    count: int
    first_at: int
    last_at: int


def store(database: Database, node: str, counts: Mapping[HandshakeKey, HandshakeCount]) -> None:
    rows = [
        {
            **key._asdict(),
            "node": node,
            "subject": found.failure.subject,
            "is_trouble": int(found.failure.is_trouble),
            "count": found.count,
            "first_at": found.first_at,
            "last_at": found.last_at,
            "hour": HOUR,
        }
        for key, found in sorted(counts.items())
    ]
    if rows:
        channels = sorted({(key.kind, key.name) for key in counts})
        with database.write() as connection:
            connection.execute(_ADD, rows)
            connection.execute(
                _DELETE_OLD,
                [{"kind": kind, "name": name, "kept": MAX_ENTRIES - 1} for kind, name in channels],
            )


def read(database: Database) -> list[StoredHandshake]:
    """Return all stored failures, newest first."""
    with database.read() as connection:
        rows = connection.execute(_SELECT).mappings().all()
    return [StoredHandshake(**{**row, "is_trouble": bool(row["is_trouble"])}) for row in rows]


def of_channels(database: Database, kind: str) -> dict[str, list[dict[str, Any]]]:
    """Return the failures of listeners or destinations by name, newest first."""
    found: dict[str, list[dict[str, Any]]] = {}
    for failure in read(database):
        if failure.kind == kind:
            found.setdefault(failure.name, []).append(asdict(failure))
    return found
