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

from bridge.store.postgresql.connection import BinaryArray, binary_arrays

_MOST = 1000
_columns: dict[tuple[type, bool, str], tuple[str, ...]] = {}
"""
The columns of statements that were run, by the driver, how and the text; () where none finds rows.

They are always the same, and psycopg builds an object for each column to tell them.
"""

_named: Any = namedtuple  # noqa: PYI024  # its fields are known when a statement is run


class StatementResult:
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


class BoundStatement(NamedTuple):
    """A statement in the driver's own form, with its values; `many`: once for each of them."""

    statement: str
    values: Any
    many: bool = False


def execute_sql(
    connection: Connection, statement: str, values: Any, *, many: bool = False
) -> StatementResult:
    """
    Run a statement in the driver's own form; `many`: once for each of the values.

    Errors are the driver's; `Database` translates those that leave a transaction.
    """
    return execute_bound(connection, BoundStatement(statement, values, many))


def execute_bound(connection: Connection, words: BoundStatement) -> StatementResult:
    """As `execute_sql`."""
    if has_listeners(connection):
        heard = connection.exec_driver_sql(words.statement, words.values)
        rows = heard.all() if heard.returns_rows else ()
        return StatementResult(
            tuple(heard.keys()) if heard.returns_rows else (), rows, heard.rowcount
        )
    cursor: Any = connection.connection.cursor()
    try:
        return _answer(_sent(cursor, words), words)
    finally:
        cursor.close()


def execute_all(connection: Connection, words: Sequence[BoundStatement]) -> list[StatementResult]:
    """
    Run statements one after the other.

    Each sees what those before it did, and what others have committed until then. After one that
    fails none is run. Errors are as for `execute_sql`.

    Outside of a transaction (`Database.requeue_claims_of_failed_nodes`) PostgreSQL is sent all
    before the first answer is
    awaited. Within one each is awaited: the server ends a transaction whose client is stopped
    between two statements, but not one whose client is stopped within a pipeline.
    """
    driver: Any = connection.connection.driver_connection
    is_postgres = connection.dialect.name == "postgresql"
    if len(words) < 2 or not is_postgres or not driver.autocommit or has_listeners(connection):  # noqa: PLR2004  # several
        return [execute_bound(connection, each) for each in words]
    with driver.pipeline():
        cursors = [_sent(driver.cursor(), each) for each in words]
    return list(map(_answer, cursors, words))


def has_listeners(connection: Connection) -> bool:
    """Tell whether a listener of the engine is to hear of each statement."""
    heeded = connection.dispatch
    return bool(heeded.before_cursor_execute or heeded.after_cursor_execute)


def stored_json(stored: Any) -> Any:
    """Read an object or a list in JSON, which one of the two drivers has done already."""
    return from_json(stored) if isinstance(stored, str) else stored


def _sent(cursor: Any, words: BoundStatement) -> Any:
    (cursor.executemany if words.many else cursor.execute)(words.statement, words.values)
    return cursor


def _answer(cursor: Any, words: BoundStatement) -> StatementResult:
    text = (type(cursor), words.many, words.statement)
    names = _columns.get(text)
    if names is None:
        if len(_columns) >= _MOST:
            _columns.clear()
        found = cursor.description or ()
        names = _columns[text] = tuple(column[0] for column in found)
    return StatementResult(names, cursor.fetchall() if names else (), cursor.rowcount)


@cache
def _kind(names: tuple[str, ...]) -> Any:
    """Give what makes a row of a tuple; there are as many kinds as statements."""
    return _named("Row", names, rename=True)._make


_PARAMETER: Final = re.compile(r"(?<!:):([a-z_]+)")


@dataclass(frozen=True, slots=True)
class BulkStatement:
    """
    `sqlite` has a `?` for every value of a row, `postgres` a `%s` for every column of all rows.

    `types` are the SQL types of the columns, in their order; those of the positions `repeated` are
    given `postgres` once more, at its end.
    """

    types: tuple[str, ...]
    sqlite: str
    postgres: str
    repeated: tuple[int, ...] = ()

    def arrays(self, rows: Sequence[tuple[Any, ...]]) -> tuple[BinaryArray, ...]:
        """Give what `postgres` is asked with."""
        values = binary_arrays(self.types, rows)
        return (*values, *(values[each] for each in self.repeated))


@dataclass(frozen=True, slots=True)
class KeyStatement:
    """
    A statement about the rows whose key is one of some, however many: its text stays the same.

    `kind` is the SQL type of the key, `name` the parameter's.
    """

    kind: str
    name: str
    sqlite: str
    postgres: str

    def with_postgresql(self, said: str) -> "KeyStatement":
        """Say it to PostgreSQL in words of its own."""
        return replace(self, postgres=said)

    def with_sqlite_part(self, said: str, sqlite: str) -> "KeyStatement":
        """Say a part of it in words that any SQLite knows."""
        return replace(self, sqlite=self.sqlite.replace(said, sqlite))


@dataclass(frozen=True, slots=True)
class DialectStatement:
    """A statement with some values, in each driver's form."""

    sqlite: str
    postgres: str


def dialect_statement(statement: str) -> DialectStatement:
    """Read a statement with parameters `:so`."""
    return DialectStatement(statement, _PARAMETER.sub(r"%(\1)s", statement))


def execute(connection: Connection, of: DialectStatement, **values: Any) -> StatementResult:
    """Run a statement with its values."""
    return execute_bound(connection, bind(connection, of, **values))


def bind(connection: Connection, of: DialectStatement, **values: Any) -> BoundStatement:
    """Give a statement with its values, to be run with others (`answers.execute_all`)."""
    return BoundStatement(of.postgres if is_postgresql(connection) else of.sqlite, values)


def key_statement(statement: str, name: str = "ids", kind: str = "bigint") -> KeyStatement:
    """Read a statement with parameters `:so`, that says `IN :ids` or `IN :` and another name."""
    wanted = f"IN :{name}"
    array = statement.replace(wanted, f"= ANY(%({name})s::{kind}[])")
    return KeyStatement(
        kind,
        name,
        statement.replace(wanted, f"IN (SELECT value FROM json_each(:{name}))"),  # noqa: S608  # our own name
        _PARAMETER.sub(r"%(\1)s", array),
    )


def execute_keys(
    connection: Connection, of: KeyStatement, keys: Sequence[Any], **others: Any
) -> StatementResult:
    """Run a statement about the rows of these keys; `others` are its other parameters."""
    return execute_bound(connection, bind_keys(connection, of, keys, **others))


def bind_keys(
    connection: Connection, of: KeyStatement, keys: Sequence[Any], **others: Any
) -> BoundStatement:
    """Give what `execute_keys` runs, to be run with others."""
    if is_postgresql(connection):
        (array,) = binary_arrays((of.kind,), [(key,) for key in keys])
        return BoundStatement(of.postgres, {of.name: array, **others})
    # JSON carries 64-bit integers whole.
    return BoundStatement(of.sqlite, {of.name: json.dumps(list(keys)), **others})


def unnest(kinds: Sequence[str]) -> str:
    """Give the table that PostgreSQL makes of a step's arrays."""
    return f"unnest({', '.join(f'%s::{kind}[]' for kind in kinds)})"


def is_postgresql(connection: Connection) -> bool:
    """Tell whether a step is one statement for all rows."""
    return connection.dialect.name == "postgresql"


def execute_rows(
    connection: Connection, step: BulkStatement, rows: Sequence[tuple[Any, ...]]
) -> StatementResult | None:
    """Run a step over rows; what PostgreSQL returns can be read, None is without rows."""
    if not rows:
        return None
    return execute_bound(connection, bind_rows(connection, step, rows))


def bind_rows(
    connection: Connection, step: BulkStatement, rows: Sequence[tuple[Any, ...]]
) -> BoundStatement:
    """Give what `execute_rows` runs over rows, of which there are some, to be run with others."""
    if is_postgresql(connection):
        return BoundStatement(step.postgres, step.arrays(rows))
    return BoundStatement(step.sqlite, rows, many=True)


_KINDS: Final = (
    (Boolean, "boolean"),
    (BigInteger, "bigint"),
    (Integer, "bigint"),
    (LargeBinary, "bytea"),
)


@dataclass(frozen=True, slots=True)
class InsertStatement:
    """How rows of these columns are inserted; `documents` are the places of those in JSON."""

    head: str
    names: tuple[str, ...]
    documents: tuple[int, ...]
    step: BulkStatement


def prepare_insert(table: Table, names: Sequence[str], returning: str = "") -> InsertStatement:
    """Prepare to insert rows that give these columns; `returning` is for PostgreSQL alone."""
    types = [table.c[name].type for name in names]
    documents = tuple(place for place, each in enumerate(types) if isinstance(each, JSON))
    chosen = [f"{name}::json" if place in documents else name for place, name in enumerate(names)]
    kinds = tuple(map(_column_kind, types))
    head = f"INSERT INTO {table.name} ({', '.join(names)})"
    each = f"{head} VALUES ({', '.join('?' * len(names))})"
    # Keys are drawn in the order in which the rows are given.
    together = (
        f"{head} SELECT {', '.join(chosen)} FROM {unnest(kinds)}"  # noqa: S608  # a table's own names
        f" WITH ORDINALITY AS given ({', '.join(names)}, place) ORDER BY place"
    )
    return InsertStatement(
        head,
        tuple(names),
        documents,
        BulkStatement(kinds, each, f"{together} RETURNING {returning}" if returning else together),
    )


def insert_rows(
    connection: Connection, how: InsertStatement, rows: Sequence[Mapping[str, Any]]
) -> StatementResult | None:
    """Insert rows in their order; None in a JSON column is no value."""
    return execute_rows(connection, how.step, [_values(how, row) for row in rows])


def bind_insert(
    connection: Connection, how: InsertStatement, rows: Sequence[Mapping[str, Any]]
) -> BoundStatement:
    """Give what `insert_rows` runs for rows, of which there are some, to be run with others."""
    return bind_rows(connection, how.step, [_values(how, row) for row in rows])


def bind_insert_values(
    connection: Connection, how: InsertStatement, rows: Sequence[Mapping[str, Any]]
) -> BoundStatement:
    """As `bind_insert`, for `Database.append_at_commit`: PostgreSQL is given a list of plain
    values.
    """
    if not is_postgresql(connection):
        return bind_insert(connection, how, rows)
    values = [_values(how, row) for row in rows]
    row = f"({', '.join(['%s'] * len(how.names))})"
    statement = f"{how.head} VALUES {', '.join([row] * len(values))}"
    return BoundStatement(statement, tuple(value for each in values for value in each))


def _values(how: InsertStatement, row: Mapping[str, Any]) -> tuple[Any, ...]:
    values = [row[name] for name in how.names]
    for place in how.documents:
        if values[place] is not None:
            values[place] = to_json(values[place]).decode()
    return tuple(values)


def _column_kind(of: TypeEngine[Any]) -> str:
    return next((name for kind, name in _KINDS if isinstance(of, kind)), "text")
