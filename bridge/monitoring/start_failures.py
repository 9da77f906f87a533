"""Why listeners and destinations could not begin: what each node writes down while it tries.

A row stands as long as its node renews it; one of a node that is gone is no news. Blocking.
"""

from collections.abc import Mapping

from sqlalchemy import text

from bridge.monitoring.channels import Kind
from bridge.store.database import Database

STANDS = 60_000  # ms

_FORGET = text("DELETE FROM channel_trouble WHERE kind = :kind AND node = :node")
_NOTE = text("""
    INSERT INTO channel_trouble (kind, name, node, reason, at)
    VALUES (:kind, :name, :node, :reason, :at)
""")
_STANDING = text("""
    SELECT name, reason FROM channel_trouble WHERE kind = :kind AND at > :after
    ORDER BY name, reason
""")


def note(database: Database, kind: Kind, node: str, reasons: Mapping[str, str], now: int) -> None:
    """Write down all that a node has trouble with, by the names; `now` in ms."""
    own = {"kind": kind.value, "node": node}
    with database.write() as connection:
        connection.execute(_FORGET, own)
        for name, reason in reasons.items():
            connection.execute(_NOTE, {**own, "name": name, "reason": reason, "at": now})


def standing(database: Database, kind: Kind, now: int) -> dict[str, str]:
    """Give what stands, by the names; where several nodes have trouble, one of their reasons."""
    with database.read() as connection:
        rows = connection.execute(_STANDING, {"kind": kind.value, "after": now - STANDS}).all()
    return {row.name: row.reason for row in rows}
