"""Statements: SQL for both databases, rows in bulk, and the driver's own cursor within a
transaction.

SQLAlchemy makes and ends an execution for each statement, which costs as much again as a short one.
Whoever listens to an engine's statements hears of these too.

SQLite runs a prepared statement for each row. A server is asked once for all of them: PostgreSQL
unnests arrays, which are one value and not a list that the driver reads again and again. The
statements are their owners'.

Of a table's columns JSON is written here; all else goes as it is. Who refers to whom, and what
a missing column means, is the table's.
"""

import json
import re
from collections import namedtuple
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, NamedTuple

from pydantic_core import from_json, to_json
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

from bridge.store.postgresql.connection import Packed, packed

_MOST = 1000
_columns: dict[tuple[type, bool, str], tuple[str, ...]] = {}
"""
The columns of statements that were run, by the driver, how and the text; () where none finds rows.

They are always the same, and psycopg builds an object for each column to tell them.
"""

_named: Any = namedtuple  # noqa: PYI024  # its fields are known when a statement is run


class Answer:
    """What a statement has found, rows with the names of its columns; or how many it changed."""

    __slots__ = ("_names", "_rows", "rowcount")

    def __init__(self, names: tuple[str, ...], rows: Sequence[Any], rowcount: int) -> None:
        self._names = names
        self._rows = rows
        self.rowcount = rowcount

    @property
    def returns_rows(self) -> bool:
        """Whether the statement was one that finds rows, be it none."""
        return bool(self._names)

    def all(self) -> list[Any]:
        """Give all rows."""
        return list(map(_kind(self._names), self._rows)) if self._rows else []

    def first(self) -> Any | None:
        """Give the first row, if there is one."""
        return _kind(self._names)(self._rows[0]) if self._rows else None

    def scalars(self) -> list[Any]:
        """Give the first value of each row."""
        return [row[0] for row in self._rows]

    def scalar(self) -> Any | None:
        """Give the first value of the first row, if there is one."""
        return self._rows[0][0] if self._rows else None

    def __iter__(self) -> Iterator[Any]:
        return iter(self.all())


class Words(NamedTuple):
    """A statement in the driver's own form, with its values; `many`: once for each of them."""

    statement: str
    values: Any
    many: bool = False


def run(connection: Connection, statement: str, values: Any, *, many: bool = False) -> Answer:
    """
    Run a statement in the driver's own form; `many`: once for each of the values.

    Errors are the driver's; `Database` translates those that leave a transaction.
    """
    return carry(connection, Words(statement, values, many))


def carry(connection: Connection, words: Words) -> Answer:
    """As `run`."""
    if is_heard(connection):
        heard = connection.exec_driver_sql(words.statement, words.values)
        rows = heard.all() if heard.returns_rows else ()
        return Answer(tuple(heard.keys()) if heard.returns_rows else (), rows, heard.rowcount)
    cursor: Any = connection.connection.cursor()
    try:
        return _answer(_sent(cursor, words), words)
    finally:
        cursor.close()


def run_all(connection: Connection, words: Sequence[Words]) -> list[Answer]:
    """
    Run statements one after the other.

    Each sees what those before it did, and what others have committed until then. After one that
    fails none is run. Errors are as for `run`.

    Outside of a transaction (`Database.look`) PostgreSQL is sent all before the first answer is
    awaited. Within one each is awaited: the server ends a transaction whose client is stopped
    between two statements, but not one whose client is stopped within a pipeline.
    """
    driver: Any = connection.connection.driver_connection
    is_postgres = connection.dialect.name == "postgresql"
    if len(words) < 2 or not is_postgres or not driver.autocommit or is_heard(connection):  # noqa: PLR2004  # several
        return [carry(connection, each) for each in words]
    with driver.pipeline():
        cursors = [_sent(driver.cursor(), each) for each in words]
    return list(map(_answer, cursors, words))


def is_heard(connection: Connection) -> bool:
    """Tell whether a listener of the engine is to hear of each statement."""
    heeded = connection.dispatch
    return bool(heeded.before_cursor_execute or heeded.after_cursor_execute)


def stored_json(stored: Any) -> Any:
    """Read an object or a list in JSON, which one of the two drivers has done already."""
    return from_json(stored) if isinstance(stored, str) else stored


def _sent(cursor: Any, words: Words) -> Any:
    (cursor.executemany if words.many else cursor.execute)(words.statement, words.values)
    return cursor


def _answer(cursor: Any, words: Words) -> Answer:
    text = (type(cursor), words.many, words.statement)
    names = _columns.get(text)
    if names is None:
        if len(_columns) >= _MOST:
            _columns.clear()
        found = cursor.description or ()
        names = _columns[text] = tuple(column[0] for column in found)
    return Answer(names, cursor.fetchall() if names else (), cursor.rowcount)


@cache
def _kind(names: tuple[str, ...]) -> Any:
    """Give what makes a row of a tuple; there are as many kinds as statements."""
    return _named("Row", names, rename=True)._make


_PARAMETER: Final = re.compile(r"(?<!:):([a-z_]+)")


@dataclass(frozen=True, slots=True)
class Step:
    """
    `each` has a `?` for every value of a row, `together` a `%s` for every column of all rows.

    `kinds` are the SQL types of the columns, in their order; those of the positions `again` are
    given `together` once more, at its end.
    """

    kinds: tuple[str, ...]
    each: str
    together: str
    again: tuple[int, ...] = ()

    def columns(self, rows: Sequence[tuple[Any, ...]]) -> tuple[Packed, ...]:
        """Give what `together` is asked with."""
        values = packed(self.kinds, rows)
        return (*values, *(values[each] for each in self.again))


@dataclass(frozen=True, slots=True)
class Among:
    """
    A statement about the rows whose key is one of some, however many: its text stays the same.

    `kind` is the SQL type of the key, `name` the parameter's.
    """

    kind: str
    name: str
    sqlite: str
    postgres: str

    def in_postgres(self, said: str) -> "Among":
        """Say it to PostgreSQL in words of its own."""
        return replace(self, postgres=said)

    def instead(self, said: str, sqlite: str) -> "Among":
        """Say a part of it in words that any SQLite knows."""
        return replace(self, sqlite=self.sqlite.replace(said, sqlite))


@dataclass(frozen=True, slots=True)
class Plain:
    """A statement with some values, in each driver's form."""

    sqlite: str
    postgres: str


def plain(statement: str) -> Plain:
    """Read a statement with parameters `:so`."""
    return Plain(statement, _PARAMETER.sub(r"%(\1)s", statement))


def say(connection: Connection, of: Plain, **values: Any) -> Answer:
    """Run a statement with its values."""
    return carry(connection, said(connection, of, **values))


def said(connection: Connection, of: Plain, **values: Any) -> Words:
    """Give a statement with its values, to be run with others (`answers.run_all`)."""
    return Words(of.postgres if is_asked_once(connection) else of.sqlite, values)


def among(statement: str, name: str = "ids", kind: str = "bigint") -> Among:
    """Read a statement with parameters `:so`, that says `IN :ids` or `IN :` and another name."""
    wanted = f"IN :{name}"
    array = statement.replace(wanted, f"= ANY(%({name})s::{kind}[])")
    return Among(
        kind,
        name,
        statement.replace(wanted, f"IN (SELECT value FROM json_each(:{name}))"),  # noqa: S608  # our own name
        _PARAMETER.sub(r"%(\1)s", array),
    )


def ask(connection: Connection, of: Among, keys: Sequence[Any], **others: Any) -> Answer:
    """Run a statement about the rows of these keys; `others` are its other parameters."""
    return carry(connection, asked(connection, of, keys, **others))


def asked(connection: Connection, of: Among, keys: Sequence[Any], **others: Any) -> Words:
    """Give what `ask` runs, to be run with others."""
    if is_asked_once(connection):
        (array,) = packed((of.kind,), [(key,) for key in keys])
        return Words(of.postgres, {of.name: array, **others})
    # JSON carries 64-bit integers whole.
    return Words(of.sqlite, {of.name: json.dumps(list(keys)), **others})


def unnested(kinds: Sequence[str]) -> str:
    """Give the table that PostgreSQL makes of a step's arrays."""
    return f"unnest({', '.join(f'%s::{kind}[]' for kind in kinds)})"


def is_asked_once(connection: Connection) -> bool:
    """Tell whether a step is one statement for all rows."""
    return connection.dialect.name == "postgresql"


def carry_out(connection: Connection, step: Step, rows: Sequence[tuple[Any, ...]]) -> Answer | None:
    """Run a step over rows; what PostgreSQL returns can be read, None is without rows."""
    if not rows:
        return None
    return carry(connection, carried(connection, step, rows))


def carried(connection: Connection, step: Step, rows: Sequence[tuple[Any, ...]]) -> Words:
    """Give what `carry_out` runs over rows, of which there are some, to be run with others."""
    if is_asked_once(connection):
        return Words(step.together, step.columns(rows))
    return Words(step.each, rows, many=True)


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
    kinds = tuple(map(_column_kind, types))
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


def _column_kind(of: TypeEngine[Any]) -> str:
    return next((name for kind, name in _KINDS if isinstance(of, kind)), "text")
