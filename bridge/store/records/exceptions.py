"""
Exceptions: messages and orders that were processed and need attention.

Contains row ids and codes, never patient data. `bridge.monitoring` sends the notifications.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sqlalchemy import Connection, bindparam, text

from bridge.store.database import Database


class ExceptionSubject(StrEnum):
    MESSAGE = "message"
    ORDER = "order"
    DELIVERY = "delivery"
    """A result that its receiver accepted, and refused later."""
    FEED = "feed"
    """The change feed of the report engine; the row id is the time in ms."""


@dataclass(frozen=True, slots=True)
class ProcessingException:
    """An exception; `noted_at` in ms. `code` may be followed by a blank and a destination."""

    kind: ExceptionSubject
    row_id: int
    code: str
    noted_at: int


_ADD = text(
    "INSERT INTO exception (kind, row_id, code, noted_at) VALUES (:kind, :row_id, :code, :now) "
    "ON CONFLICT DO NOTHING"
)
MERGE_UNDONE: Final = "merge_undone"
"""The code of an order that a merge moved, and that stayed when the merge was undone."""

_DELETE = text("DELETE FROM exception WHERE kind = :kind AND row_id IN :ids").bindparams(
    bindparam("ids", expanding=True)
)
_DELETE_COMPARED = text(
    "DELETE FROM exception WHERE kind = :kind AND row_id IN :ids AND code <> 'merge_undone'"
).bindparams(bindparam("ids", expanding=True))
_CURRENT = text(
    "SELECT row_id, code FROM exception WHERE kind = :kind AND row_id IN :ids"
    " AND code <> 'merge_undone'"
).bindparams(bindparam("ids", expanding=True))
_IN_RANGE = text(
    "SELECT DISTINCT row_id FROM exception WHERE kind = :kind AND row_id > :after"
    " AND row_id <= :upto AND code <> :excluded AND code <> 'merge_undone'"
)
_WITH_CODE = text("SELECT row_id FROM exception WHERE kind = :kind AND code = :code")
_UNSEEN = text(
    "SELECT kind, row_id, code, noted_at FROM exception WHERE seen_at IS NULL "
    "ORDER BY noted_at DESC, row_id DESC LIMIT :limit"
)
_MARK_SEEN = text(
    "UPDATE exception SET seen_at = :now, seen_by = :by "
    "WHERE seen_at IS NULL AND kind = :kind AND row_id = :row_id"
)
_MARK_ALL_SEEN = text("UPDATE exception SET seen_at = :now, seen_by = :by WHERE seen_at IS NULL")


def add(
    connection: Connection, kind: ExceptionSubject, codes: Iterable[tuple[int, str]], now: int
) -> None:
    """Add exceptions by row id and code. Existing ones stay as they are."""
    rows = [
        {"kind": kind.value, "row_id": row_id, "code": code, "now": now} for row_id, code in codes
    ]
    if rows:
        connection.execute(_ADD, rows)


def replace_all(
    connection: Connection,
    kind: ExceptionSubject,
    row_ids: Sequence[int],
    codes: Iterable[tuple[int, str]],
    now: int,
) -> None:
    """Replace the exceptions of these rows, except those of undone merges: a person ends these."""
    found = set(codes)
    if row_ids:
        parameters = {"kind": kind.value, "ids": list(row_ids)}
        before = {(row.row_id, row.code) for row in connection.execute(_CURRENT, parameters)}
        if before == found:
            return
        outdated = sorted({row_id for row_id, _ in before - found})
        if outdated:
            connection.execute(_DELETE_COMPARED, {"kind": kind.value, "ids": outdated})
    add(connection, kind, found, now)


def rows_in_range(
    connection: Connection, kind: ExceptionSubject, after: int, upto: int, excluded: str
) -> set[int]:
    """Return rows with ids above `after` and up to `upto` with another code than `excluded`."""
    criteria = {"kind": kind.value, "after": after, "upto": upto, "excluded": excluded}
    return set(connection.execute(_IN_RANGE, criteria).scalars())


def rows_with_code(connection: Connection, kind: ExceptionSubject, code: str) -> set[int]:
    return set(connection.execute(_WITH_CODE, {"kind": kind.value, "code": code}).scalars())


def forget(connection: Connection, kind: ExceptionSubject, row_ids: Sequence[int]) -> None:
    """Delete the exceptions of rows that are deleted."""
    if row_ids:
        connection.execute(_DELETE, {"kind": kind.value, "ids": list(row_ids)})


def list_unseen(database: Database, limit: int) -> list[ProcessingException]:
    """List exceptions that nobody has marked as seen, newest first."""
    with database.read() as connection:
        rows = connection.execute(_UNSEEN, {"limit": limit}).all()
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
    """Mark these exceptions, or all (None), as seen; return the number."""
    reviewed = {"now": now, "by": by}
    with database.write() as connection:
        if subjects is None:
            return connection.execute(_MARK_ALL_SEEN, reviewed).rowcount
        return sum(
            connection.execute(
                _MARK_SEEN, {**reviewed, "kind": kind.value, "row_id": row_id}
            ).rowcount
            for kind, row_id in subjects
        )
