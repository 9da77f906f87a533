"""Which messages were made of which by a person, and by whom. Blocking."""

from typing import Any

from sqlalchemy import text

from bridge.store.database import Database

_OF = text("""
    SELECT message_id, origin_id, at, email, reason FROM message_edit
    WHERE message_id = :id OR origin_id = :id ORDER BY message_id
""")


def edits_of(database: Database, message_id: int) -> list[dict[str, Any]]:
    """Give the links of one message to those it was made of and into; times in ms."""
    with database.read() as connection:
        return [dict(row) for row in connection.execute(_OF, {"id": message_id}).mappings()]
