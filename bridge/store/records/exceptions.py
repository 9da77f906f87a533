"""
Exceptions: messages and orders that were processed and need attention.

Contains row ids and codes, never patient data. `bridge.monitoring` sends the notifications.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sqlalchemy import Connection, delete, select, update
from sqlalchemy.dialects.postgresql import insert

from bridge.store.database import Database
from bridge.store.tables import EXCEPTIONS


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


MERGE_UNDONE: Final = "merge_undone"
"""The code of an order that a merge moved, and that stayed when the merge was undone."""

_EXCEPTION = EXCEPTIONS.c


def add(
    connection: Connection, kind: ExceptionSubject, codes: Iterable[tuple[int, str]], now: int
) -> None:
    """Add exceptions by row id and code. Existing ones stay as they are."""
    rows = [
        {"kind": kind.value, "row_id": row_id, "code": code, "noted_at": now}
        for row_id, code in codes
    ]
    if rows:
        connection.execute(insert(EXCEPTIONS).on_conflict_do_nothing(), rows)


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
        compared = (_EXCEPTION.kind == kind.value, _EXCEPTION.code != MERGE_UNDONE)
        current = select(_EXCEPTION.row_id, _EXCEPTION.code).where(
            *compared, _EXCEPTION.row_id.in_(row_ids)
        )
        before = {(row.row_id, row.code) for row in connection.execute(current)}
        if before == found:
            return
        outdated = sorted({row_id for row_id, _ in before - found})
        if outdated:
            connection.execute(delete(EXCEPTIONS).where(*compared, _EXCEPTION.row_id.in_(outdated)))
    add(connection, kind, found, now)


def rows_in_range(
    connection: Connection, kind: ExceptionSubject, after: int, upto: int, excluded: str
) -> set[int]:
    """Return rows with ids above `after` and up to `upto` with another code than `excluded`."""
    rows = (
        select(_EXCEPTION.row_id)
        .where(_EXCEPTION.kind == kind.value, _EXCEPTION.row_id > after)
        .where(_EXCEPTION.row_id <= upto, _EXCEPTION.code.not_in([excluded, MERGE_UNDONE]))
    )
    return set(connection.scalars(rows))


def rows_with_code(connection: Connection, kind: ExceptionSubject, code: str) -> set[int]:
    rows = select(_EXCEPTION.row_id).where(_EXCEPTION.kind == kind.value, _EXCEPTION.code == code)
    return set(connection.scalars(rows))


def forget(connection: Connection, kind: ExceptionSubject, row_ids: Sequence[int]) -> None:
    """Delete the exceptions of rows that are deleted."""
    if row_ids:
        own = (_EXCEPTION.kind == kind.value, _EXCEPTION.row_id.in_(row_ids))
        connection.execute(delete(EXCEPTIONS).where(*own))


def list_unseen(database: Database, limit: int) -> list[ProcessingException]:
    """List exceptions that nobody has marked as seen, newest first."""
    unseen = (
        select(EXCEPTIONS)
        .where(_EXCEPTION.seen_at.is_(None))
        .order_by(_EXCEPTION.noted_at.desc(), _EXCEPTION.row_id.desc(), _EXCEPTION.code)
        .limit(limit)
    )
    with database.read() as connection:
        rows = connection.execute(unseen).all()
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
    unseen = update(EXCEPTIONS).where(_EXCEPTION.seen_at.is_(None)).values(seen_at=now, seen_by=by)
    with database.write() as connection:
        if subjects is None:
            return connection.execute(unseen).rowcount
        return sum(
            connection.execute(
                unseen.where(_EXCEPTION.kind == kind.value, _EXCEPTION.row_id == row_id)
            ).rowcount
            for kind, row_id in subjects
        )
