"""
Rows into a table, many at a time, without what an ORM does for each of them.

Of a table's columns JSON is written here; all else goes as it is. Who refers to whom, and what
a missing column means, is the table's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import to_json
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Connection,
    Integer,
    LargeBinary,
    Table,
)
from sqlalchemy.types import TypeEngine

from bridge.store.answers import Answer, Words
from bridge.store.steps import Step, carried, carry_out, is_asked_once, unnested

_KINDS: Final = (
    (Boolean, "boolean"),
    (BigInteger, "bigint"),
    (Integer, "bigint"),
    (LargeBinary, "bytea"),
)


@dataclass(frozen=True, slots=True)
class Insertion:
    """How rows of these columns are inserted; `documents` are the places of those in JSON."""

    head: str
    names: tuple[str, ...]
    documents: tuple[int, ...]
    step: Step


def insertion(table: Table, names: Sequence[str], returning: str = "") -> Insertion:
    """Prepare to insert rows that give these columns; `returning` is for PostgreSQL alone."""
    types = [table.c[name].type for name in names]
    documents = tuple(place for place, each in enumerate(types) if isinstance(each, JSON))
    chosen = [f"{name}::json" if place in documents else name for place, name in enumerate(names)]
    kinds = tuple(map(_kind, types))
    head = f"INSERT INTO {table.name} ({', '.join(names)})"
    each = f"{head} VALUES ({', '.join('?' * len(names))})"
    # Keys are drawn in the order in which the rows are given.
    together = (
        f"{head} SELECT {', '.join(chosen)} FROM {unnested(kinds)}"  # noqa: S608  # a table's own names
        f" WITH ORDINALITY AS given ({', '.join(names)}, place) ORDER BY place"
    )
    return Insertion(
        head,
        tuple(names),
        documents,
        Step(kinds, each, f"{together} RETURNING {returning}" if returning else together),
    )


def insert_rows(
    connection: Connection, how: Insertion, rows: Sequence[Mapping[str, Any]]
) -> Answer | None:
    """Insert rows in their order; None in a JSON column is no value."""
    return carry_out(connection, how.step, [_values(how, row) for row in rows])


def inserted(connection: Connection, how: Insertion, rows: Sequence[Mapping[str, Any]]) -> Words:
    """Give what `insert_rows` runs for rows, of which there are some, to be run with others."""
    return carried(connection, how.step, [_values(how, row) for row in rows])


def listed(connection: Connection, how: Insertion, rows: Sequence[Mapping[str, Any]]) -> Words:
    """As `inserted`, for `Database.at_commit`: PostgreSQL is given a list of plain values."""
    if not is_asked_once(connection):
        return inserted(connection, how, rows)
    values = [_values(how, row) for row in rows]
    row = f"({', '.join(['%s'] * len(how.names))})"
    statement = f"{how.head} VALUES {', '.join([row] * len(values))}"
    return Words(statement, tuple(value for each in values for value in each))


def _values(how: Insertion, row: Mapping[str, Any]) -> tuple[Any, ...]:
    values = [row[name] for name in how.names]
    for place in how.documents:
        if values[place] is not None:
            values[place] = to_json(values[place]).decode()
    return tuple(values)


def _kind(of: TypeEngine[Any]) -> str:
    return next((name for kind, name in _KINDS if isinstance(of, kind)), "text")
