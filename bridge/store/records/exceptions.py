"""Exceptions: messages and orders that were processed and need attention.

Names rows and codes, never a patient. Who is told of it is `bridge.operations`' business.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import Connection, bindparam, text

from bridge.store.database import Database


class ExceptionSubject(StrEnum):
    """What a concern is about."""

    MESSAGE = "message"
    ORDER = "order"
    FEED = "feed"
    """The report service's change feed; the row id is the moment in ms."""


@dataclass(frozen=True, slots=True)
class ProcessingException:
    """One thing to look at; `noted_at` in ms. `code` may name a destination behind a blank."""

    kind: ExceptionSubject
    row_id: int
    code: str
    noted_at: int


_NOTE = text(
    "INSERT INTO concern (kind, row_id, code, noted_at) VALUES (:kind, :row_id, :code, :now) "
    "ON CONFLICT DO NOTHING"
)
_OVER = text("DELETE FROM concern WHERE kind = :kind AND row_id IN :ids").bindparams(
    bindparam("ids", expanding=True)
)
_STANDING = text(
    "SELECT row_id, code FROM concern WHERE kind = :kind AND row_id IN :ids"
).bindparams(bindparam("ids", expanding=True))
_BETWEEN = text(
    "SELECT DISTINCT row_id FROM concern "
    "WHERE kind = :kind AND row_id > :after AND row_id <= :upto AND code <> :but"
)
_OF_CODE = text("SELECT row_id FROM concern WHERE kind = :kind AND code = :code")
_OPEN = text(
    "SELECT kind, row_id, code, noted_at FROM concern WHERE seen_at IS NULL "
    "ORDER BY noted_at DESC, row_id DESC LIMIT :limit"
)
_SEEN = text(
    "UPDATE concern SET seen_at = :now, seen_by = :by "
    "WHERE seen_at IS NULL AND kind = :kind AND row_id = :row_id"
)
_ALL_SEEN = text("UPDATE concern SET seen_at = :now, seen_by = :by WHERE seen_at IS NULL")


def add(
    connection: Connection, kind: ExceptionSubject, codes: Iterable[tuple[int, str]], now: int
) -> None:
    """Note concerns by row id and code; one that was noted before is no news."""
    rows = [
        {"kind": kind.value, "row_id": row_id, "code": code, "now": now} for row_id, code in codes
    ]
    if rows:
        connection.execute(_NOTE, rows)


def replace_all(
    connection: Connection,
    kind: ExceptionSubject,
    row_ids: Sequence[int],
    codes: Iterable[tuple[int, str]],
    now: int,
) -> None:
    """Let what is found of these rows now be all that stands of them."""
    found = set(codes)
    if row_ids:
        parameters = {"kind": kind.value, "ids": list(row_ids)}
        before = {(row.row_id, row.code) for row in connection.execute(_STANDING, parameters)}
        if before == found:
            return
        over = sorted({row_id for row_id, _ in before - found})
        if over:
            connection.execute(_OVER, {"kind": kind.value, "ids": over})
    add(connection, kind, found, now)


def rows_in_range(
    connection: Connection, kind: ExceptionSubject, after: int, upto: int, but: str
) -> set[int]:
    """Give the rows in a stretch of ids of which something else than `except_ids` stands."""
    asked = {"kind": kind.value, "after": after, "upto": upto, "but": but}
    return set(connection.execute(_BETWEEN, asked).scalars())


def rows_with_code(connection: Connection, kind: ExceptionSubject, code: str) -> set[int]:
    """Give the rows of which a code stands."""
    return set(connection.execute(_OF_CODE, {"kind": kind.value, "code": code}).scalars())


def forget(connection: Connection, kind: ExceptionSubject, row_ids: Sequence[int]) -> None:
    """Forget the concerns of rows that go."""
    if row_ids:
        connection.execute(_OVER, {"kind": kind.value, "ids": list(row_ids)})


def list_unseen(database: Database, limit: int) -> list[ProcessingException]:
    """List what nobody has seen yet, newest first."""
    with database.read() as connection:
        rows = connection.execute(_OPEN, {"limit": limit}).all()
    return [
        ProcessingException(ExceptionSubject(row.kind), row.row_id, row.code, row.noted_at)
        for row in rows
    ]


def mark_seen(
    database: Database,
    subjects: Iterable[tuple[ExceptionSubject, int]] | None,
    now: int,
    by: str = "",
) -> int:
    """Take note that somebody has looked at these, or at all (None); give how many there were."""
    who = {"now": now, "by": by}
    with database.write() as connection:
        if subjects is None:
            return connection.execute(_ALL_SEEN, who).rowcount
        return sum(
            connection.execute(_SEEN, {**who, "kind": kind.value, "row_id": row_id}).rowcount
            for kind, row_id in subjects
        )
