"""
What people did in the console: who, when, what, on which row, and whether it went well.

Rows, names and codes only: what was searched for is not kept, nor what was read. Blocking.
"""

from dataclasses import dataclass

from sqlalchemy import text

from bridge.store.database import Database

DONE = "done"


@dataclass(frozen=True, slots=True)
class Deed:
    """One entry; `subject` is such as `message 17`, `outcome` is `done` or a code."""

    email: str
    action: str
    subject: str = ""
    outcome: str = DONE


_NOTE = text("""
    INSERT INTO console_deed (at, email, action, subject, outcome)
    VALUES (:at, :email, :action, :subject, :outcome)
""")
_NEWEST = text("""
    SELECT id, at, email, action, subject, outcome FROM console_deed
    WHERE id < :before ORDER BY id DESC LIMIT :limit
""")
_LAST = 2**63 - 1


def note(database: Database, deed: Deed, now: int) -> None:
    """Keep a deed."""
    row = {"at": now, "email": deed.email, "action": deed.action}
    with database.write() as connection:
        connection.execute(_NOTE, {**row, "subject": deed.subject, "outcome": deed.outcome})


def newest(database: Database, limit: int, before: int | None = None) -> list[dict[str, object]]:
    """List deeds, newest first, those before an id; times in ms."""
    parameters = {"before": _LAST if before is None else before, "limit": limit}
    with database.read() as connection:
        return [dict(row) for row in connection.execute(_NEWEST, parameters).mappings()]
