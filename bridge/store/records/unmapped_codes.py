"""Codes that messages had and no code table of their definition: how often, since when.

One row for each code of a table; what stands is what the version in force has met. What a code
may be kept as is decided before it comes here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection, text

from bridge.store.database import Database

MOST_OF_A_TABLE = 200
"""So many codes of a table are kept by name; further ones are counted together."""
UNNAMED = ""
_KEPT = 90 * 86_400_000  # ms


class CodeKey(NamedTuple):
    """Which code of which table; `code` is empty where it is not to be named."""

    mapping: str
    code_table: str
    code: str


@dataclass(frozen=True, slots=True)
class CodeUse:
    """How often a version met a code since it was noted last."""

    version: str
    place: str
    policy: str
    count: int = 1
    back: bool = False


@dataclass(frozen=True, slots=True)
class UnmappedCodeRecord:
    """
    A code without an entry; times in ms. `policy` is `write`, `empty` or `refuse`.

    `back`: it was looked up as a value, from right to left.
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
_STANDING = text(f"""
    SELECT {_COLUMNS} FROM unknown_code u WHERE version = (
        SELECT a.version FROM mapping_activation a WHERE a.name = u.mapping
        ORDER BY a.id DESC LIMIT 1
    ) ORDER BY last_at DESC, mapping, code_table, code LIMIT :limit
""")  # noqa: S608  # names of columns
_SEEN = text("""
    UPDATE unknown_code SET seen_at = :now, seen_by = :by
    WHERE mapping = :mapping AND code_table = :code_table AND code = :code AND seen_at IS NULL
""")
_FORGET = text("DELETE FROM unknown_code WHERE last_at < :before")


def add(database: Database, found: Mapping[CodeKey, CodeUse], now: int) -> None:
    """Count codes that were met; ones that nobody has met for ninety days are forgotten."""
    with database.write() as connection:
        database.serialize(connection, "unknown codes")
        for key in sorted(found):
            named = _within(connection, key)
            row = {**named._asdict(), "now": now}
            met = found[key]
            told = {"place": met.place, "policy": met.policy, "back": int(met.back)}
            connection.execute(_ADD, {**row, **told, "version": met.version, "count": met.count})
        connection.execute(_FORGET, {"before": now - _KEPT})


def _within(connection: Connection, key: CodeKey) -> CodeKey:
    """Name a code only while there are few of its table."""
    of_table = {"mapping": key.mapping, "code_table": key.code_table}
    known = set(connection.execute(_NAMED, of_table).scalars())
    full = len(known - {UNNAMED}) >= MOST_OF_A_TABLE and key.code not in known
    return key._replace(code=UNNAMED) if full else key


def list_active(database: Database, limit: int) -> list[UnmappedCodeRecord]:
    """List the codes that the versions in force have met, the last met first."""
    with database.read() as connection:
        rows = connection.execute(_STANDING, {"limit": limit}).mappings()
        return [UnmappedCodeRecord(**{**row, "back": bool(row["back"])}) for row in rows]


def mark_seen(database: Database, key: CodeKey, by: str, now: int) -> bool:
    """Take note that somebody leaves a code as it is; whether it was there and unseen."""
    with database.write() as connection:
        return bool(connection.execute(_SEEN, {**key._asdict(), "by": by, "now": now}).rowcount)
