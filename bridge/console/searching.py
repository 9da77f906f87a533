"""
Find messages by number, state, listener, time and the text of their error.

Numbers go by the index of hashes, states that want a person by theirs, time by bisection of ids,
which are by age. What has no index is looked for in a window of ids, so that a page costs the
same on ten messages and on ten million. Blocking.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import (
    ColumnElement,
    Connection,
    TableClause,
    and_,
    func,
    or_,
    select,
)

from bridge.console.numbers import Kind, hashed, site_numbers
from bridge.queue.browse import ATTENTION, in_state, listed_message
from bridge.queue.rows import MessageRow
from bridge.queue.states import State
from bridge.queue.tables import MESSAGE, MESSAGE_NUMBER
from bridge.store.database import Database

WINDOW = 20_000
"""So many ids are looked through at once."""
_TEXTS = ("detail", "code", "error_code", "error_place", "failure")


@dataclass(frozen=True, slots=True)
class Search:
    """What is looked for; None leaves it open. Times in ms, `before` an id."""

    kind: Kind | None = None
    number: str = ""
    state: State | None = None
    listener: str | None = None
    text: str = ""
    since: int | None = None
    until: int | None = None
    before: int | None = None
    limit: int = 50
    sites: frozenset[str] | None = None
    """Only what speaks of these and no other; None: of any, or none."""


@dataclass(frozen=True, slots=True)
class Page:
    """What was found, newest first; `further` is the id to go on before, None: that was all."""

    rows: Sequence[MessageRow]
    further: int | None


def search(database: Database, wanted: Search) -> Page:
    """Find messages."""
    with database.read() as connection:
        newest = connection.execute(select(func.max(MESSAGE.c.id))).scalar() or 0
        low = 0 if wanted.since is None else id_at(connection, MESSAGE, "received_at", wanted.since)
        high = newest + 1 if wanted.before is None else wanted.before
        if wanted.until is not None:
            high = min(high, id_at(connection, MESSAGE, "received_at", wanted.until))
        indexed = wanted.kind is not None or wanted.state in ATTENTION
        floor = low if indexed else max(low, high - WINDOW)
        statement = (
            select(*(MESSAGE.c[name] for name in MessageRow.__slots__))
            .where(MESSAGE.c.id >= floor, MESSAGE.c.id < high, *_conditions(wanted))
            .order_by(MESSAGE.c.id.desc())
            .limit(wanted.limit)
        )
        found = [listed_message(row) for row in connection.execute(statement).mappings()]
    if len(found) == wanted.limit:
        return Page(found, found[-1].id)
    return Page(found, floor if floor > max(low, 1) else None)


def id_at(connection: Connection, rows: TableClause, came: str, moment: int, low: int = 1) -> int:
    """
    Give an id from which on all came at a time or later, and before which all came earlier.

    `low`: an id that is known to be no greater.
    """
    high = (connection.execute(select(func.max(rows.c.id))).scalar() or 0) + 1
    while low < high:
        middle = (low + high) // 2
        statement = select(rows.c.id, rows.c[came]).where(rows.c.id >= middle)
        row = connection.execute(statement.order_by(rows.c.id).limit(1)).first()
        if row is None or row[0] >= high or row[1] >= moment:
            high = middle
        else:
            low = row[0] + 1
    return low


def _conditions(wanted: Search) -> list[ColumnElement[bool]]:
    made: list[ColumnElement[bool]] = []
    if wanted.kind is not None:
        number = hashed(wanted.kind, wanted.number)
        ids = select(MESSAGE_NUMBER.c.message_id).where(MESSAGE_NUMBER.c.number == number)
        made.append(MESSAGE.c.id.in_(ids))
    if wanted.state is not None:
        made += in_state(MESSAGE, wanted.state)
    if wanted.listener is not None:
        made.append(MESSAGE.c.listener == wanted.listener)
    if wanted.sites is not None:
        own = select(MESSAGE_NUMBER.c.message_id).where(
            MESSAGE_NUMBER.c.number.in_(site_numbers(wanted.sites)),
            MESSAGE_NUMBER.c.message_id == MESSAGE.c.id,
        )
        made.append(own.exists())
    made += [_says(word) for word in wanted.text.split()]
    return made


def _says(word: str) -> ColumnElement[bool]:
    places = (
        func.lower(MESSAGE.c[name]).contains(word.lower(), autoescape=True) for name in _TEXTS
    )
    return and_(or_(*places))
