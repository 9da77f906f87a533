"""
Codes of messages that their code table does not contain: how often, and since when.

One row for each code of a table. Only codes that the active version has met count. The caller
decides which codes may be stored by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection, text

from bridge.store.database import Database

MAX_NAMED_CODES = 200
"""Number of codes of a table that are stored by name; others are counted together."""
UNNAMED = ""
_RETENTION_MS = 90 * 86_400_000  # ms


class CodeKey(NamedTuple):
    """A code of a table; `code` is empty if it must not be named."""

    mapping: str
    code_table: str
    code: str


@dataclass(frozen=True, slots=True)
class CodeUse:
    """The number of times that a version met a code since it was recorded last."""

    version: str
    place: str
    policy: str
    count: int = 1
    back: bool = False


@dataclass(frozen=True, slots=True)
class UnmappedCodeRecord:
    """
    A code without an entry; times in ms. `policy` is `keep`, `empty` or `refuse`.

    `back`: the code was looked up as a value, from right to left.
    """

    mapping: str
    code_table: str
    code: str
    place: str
    policy: str
    back: bool
    version: str
    count: int
    first_at: int
    last_at: int
    seen_at: int | None
    seen_by: str


_COLUMNS = ", ".join(UnmappedCodeRecord.__slots__)
_ADD = text("""
    INSERT INTO unknown_code (mapping, code_table, code, place, policy, back, version, count,
                              first_at, last_at)
    VALUES (:mapping, :code_table, :code, :place, :policy, :back, :version, :count, :now, :now)
    ON CONFLICT (mapping, code_table, code) DO UPDATE SET place = :place, policy = :policy,
        back = :back, version = :version, count = unknown_code.count + :count, last_at = :now
""")
_NAMED = text("SELECT code FROM unknown_code WHERE mapping = :mapping AND code_table = :code_table")
_ACTIVE = text(f"""
    SELECT {_COLUMNS} FROM unknown_code u WHERE version = (
        SELECT a.version FROM mapping_activation a WHERE a.name = u.mapping
        ORDER BY a.id DESC LIMIT 1
    ) ORDER BY last_at DESC, mapping, code_table, code LIMIT :limit
""")  # noqa: S608  # names of columns
_MARK_SEEN = text("""
    UPDATE unknown_code SET seen_at = :now, seen_by = :by
    WHERE mapping = :mapping AND code_table = :code_table AND code = :code AND seen_at IS NULL
""")
_DELETE_OLD = text("DELETE FROM unknown_code WHERE last_at < :before")


def add(database: Database, found: Mapping[CodeKey, CodeUse], now: int) -> None:
    """Count codes that were met. Codes that were not met for ninety days are deleted."""
    with database.write() as connection:
        database.serialize(connection, "unknown codes")
        for key in sorted(found):
            named = _limit_names(connection, key)
            row = {**named._asdict(), "now": now}
            use = found[key]
            columns = {"place": use.place, "policy": use.policy, "back": int(use.back)}
            connection.execute(_ADD, {**row, **columns, "version": use.version, "count": use.count})
        connection.execute(_DELETE_OLD, {"before": now - _RETENTION_MS})


def _limit_names(connection: Connection, key: CodeKey) -> CodeKey:
    """Name a code only if few codes of its table are named."""
    of_table = {"mapping": key.mapping, "code_table": key.code_table}
    known = set(connection.execute(_NAMED, of_table).scalars())
    full = len(known - {UNNAMED}) >= MAX_NAMED_CODES and key.code not in known
    return key._replace(code=UNNAMED) if full else key


def list_active(database: Database, limit: int) -> list[UnmappedCodeRecord]:
    """List the codes that the active versions have met, last met first."""
    with database.read() as connection:
        rows = connection.execute(_ACTIVE, {"limit": limit}).mappings()
        return [UnmappedCodeRecord(**{**row, "back": bool(row["back"])}) for row in rows]


def mark_seen(database: Database, key: CodeKey, by: str, now: int) -> bool:
    """Mark a code as seen; tell whether it existed and was unseen."""
    with database.write() as connection:
        return bool(
            connection.execute(_MARK_SEEN, {**key._asdict(), "by": by, "now": now}).rowcount
        )
