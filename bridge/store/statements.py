"""
Statements: SQL for both dialects, bulk rows, and execution on the driver's cursor.

SQLAlchemy's overhead for each statement costs as much as a short statement, so these run on the
driver's cursor within the transaction. Statement listeners of the engine are still notified.

For many rows SQLite executes a prepared statement for each row. PostgreSQL gets one statement with
an array for each column.
"""

import json
import re
from collections import namedtuple
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any, Final, NamedTuple

from pydantic_core import to_json
from sqlalchemy import JSON, Connection, Table

from bridge.store.postgresql.connection import BinaryArray, binary_arrays

_MAX_CACHED = 1000
_result_columns: dict[tuple[type, bool, str], tuple[str, ...]] = {}
"""
Result columns by cursor class, `many` and statement; () if it returns no rows.

They never change, and psycopg creates an object for each column to describe them.
"""

_namedtuple: Any = namedtuple  # noqa: PYI024  # its fields are known at execution


class StatementResult:
    """Rows with named columns, or the number of changed rows."""

    __slots__ = ("_names", "_rows", "rowcount")

    def __init__(self, names: tuple[str, ...], rows: Sequence[Any], rowcount: int) -> None:
        self._names = names
        self._rows = rows
        self.rowcount = rowcount

    @property
    def returns_rows(self) -> bool:
        return bool(self._names)

    def all(self) -> list[Any]:
        """Return all rows."""
        return list(map(_row_factory(self._names), self._rows)) if self._rows else []

    def first(self) -> Any | None:
        """Return the first row, or None."""
        return _row_factory(self._names)(self._rows[0]) if self._rows else None

    def scalars(self) -> list[Any]:
        """Return the first value of each row."""
        return [row[0] for row in self._rows]

    def scalar(self) -> Any | None:
        """Return the first value of the first row, or None."""
        return self._rows[0][0] if self._rows else None

    def __iter__(self) -> Iterator[Any]:
        return iter(self.all())


class BoundStatement(NamedTuple):
    """A statement in the driver's syntax with its values; `many`: once for each of them."""

    statement: str
    values: Any
    many: bool = False


def execute_sql(
    connection: Connection, statement: str, values: Any, *, many: bool = False
) -> StatementResult:
    """
    Execute a statement in the driver's syntax; `many`: once for each of the values.

    Raises driver errors; `Database` translates those that leave a transaction.
    """
    return execute_bound(connection, BoundStatement(statement, values, many))


def execute_bound(connection: Connection, bound: BoundStatement) -> StatementResult:
    """Execute a bound statement. Errors as for `execute_sql`."""
    if has_listeners(connection):
        result = connection.exec_driver_sql(bound.statement, bound.values)
        rows = result.all() if result.returns_rows else ()
        return StatementResult(
            tuple(result.keys()) if result.returns_rows else (), rows, result.rowcount
        )
    cursor: Any = connection.connection.cursor()
    try:
        return _result(_send(cursor, bound), bound)
    finally:
        cursor.close()


def execute_all(connection: Connection, bound: Sequence[BoundStatement]) -> list[StatementResult]:
    """
    Execute statements in order.

    Each sees the effects of those before it, and what others have committed. After a failure no
    more are executed. Errors as for `execute_sql`.

    Outside of a transaction (`Database.read_committed`) all are sent to PostgreSQL in a pipeline.
    Within a transaction the results are awaited one by one: the server ends a transaction whose
    client stops between two statements, but not one whose client stops within a pipeline.
    """
    driver: Any = connection.connection.driver_connection
    is_postgres = connection.dialect.name == "postgresql"
    if len(bound) < 2 or not is_postgres or not driver.autocommit or has_listeners(connection):  # noqa: PLR2004  # a pipeline needs two
        return [execute_bound(connection, statement) for statement in bound]
    with driver.pipeline():
        cursors = [_send(driver.cursor(), bound_statement) for bound_statement in bound]
    return list(map(_result, cursors, bound))


def has_listeners(connection: Connection) -> bool:
    events = connection.dispatch
    return bool(events.before_cursor_execute or events.after_cursor_execute)


def _send(cursor: Any, bound: BoundStatement) -> Any:
    (cursor.executemany if bound.many else cursor.execute)(bound.statement, bound.values)
    return cursor


def _result(cursor: Any, bound: BoundStatement) -> StatementResult:
    text = (type(cursor), bound.many, bound.statement)
    names = _result_columns.get(text)
    if names is None:
        if len(_result_columns) >= _MAX_CACHED:
            _result_columns.clear()
        found = cursor.description or ()
        names = _result_columns[text] = tuple(column[0] for column in found)
    return StatementResult(names, cursor.fetchall() if names else (), cursor.rowcount)


@cache
def _row_factory(names: tuple[str, ...]) -> Any:
    """Return the constructor of rows with these columns; cached per statement."""
    return _namedtuple("Row", names, rename=True)._make


_PARAMETER: Final = re.compile(r"(?<!:):([a-z_]+)")


@dataclass(frozen=True, slots=True)
class BulkStatement:
    """
    A statement for many rows.

    `sqlite` has a `?` for each value of a row, `postgres` a `%s` for each column of all rows.
    `types` are the SQL types of the columns. The columns at the positions `repeated` are appended
    once more.
    """

    types: tuple[str, ...]
    sqlite: str
    postgres: str
    repeated: tuple[int, ...] = ()

    def arrays(self, rows: Sequence[tuple[Any, ...]]) -> tuple[BinaryArray, ...]:
        """Return the parameters of `postgres`."""
        values = binary_arrays(self.types, rows)
        return (*values, *(values[index] for index in self.repeated))


@dataclass(frozen=True, slots=True)
class KeyStatement:
    """
    A statement about rows with given keys; its text does not depend on their number.

    `kind` is the SQL type of the keys, `name` the name of the parameter.
    """

    kind: str
    name: str
    sqlite: str
    postgres: str


@dataclass(frozen=True, slots=True)
class DialectStatement:
    """A statement in the syntax of each driver."""

    sqlite: str
    postgres: str


def dialect_statement(statement: str) -> DialectStatement:
    """Convert a statement with parameters such as `:name`."""
    return DialectStatement(statement, _PARAMETER.sub(r"%(\1)s", statement))


def execute(connection: Connection, statement: DialectStatement, **values: Any) -> StatementResult:
    return execute_bound(connection, bind(connection, statement, **values))


def bind(connection: Connection, statement: DialectStatement, **values: Any) -> BoundStatement:
    """Bind values, to execute the statement with others (`execute_all`)."""
    return BoundStatement(
        statement.postgres if is_postgresql(connection) else statement.sqlite, values
    )


def key_statement(statement: str, name: str = "ids", kind: str = "bigint") -> KeyStatement:
    """Convert a statement with parameters such as `:name` that contains `IN :ids`."""
    wanted = f"IN :{name}"
    array = statement.replace(wanted, f"= ANY(%({name})s::{kind}[])")
    return KeyStatement(
        kind,
        name,
        statement.replace(wanted, f"IN (SELECT value FROM json_each(:{name}))"),  # noqa: S608  # our own name
        _PARAMETER.sub(r"%(\1)s", array),
    )


def execute_keys(
    connection: Connection, statement: KeyStatement, keys: Sequence[Any], **others: Any
) -> StatementResult:
    """Execute a statement for keys; `others` are its other parameters."""
    text = statement.postgres if is_postgresql(connection) else statement.sqlite
    if is_postgresql(connection):
        values: Any = binary_arrays((statement.kind,), [(key,) for key in keys])[0]
    else:
        values = json.dumps(list(keys))  # JSON keeps 64-bit integers exact
    return execute_bound(connection, BoundStatement(text, {statement.name: values, **others}))


def unnest(types: Sequence[str]) -> str:
    """Return the table expression of a bulk statement's arrays."""
    return f"unnest({', '.join(f'%s::{kind}[]' for kind in types)})"


def is_postgresql(connection: Connection) -> bool:
    """True if the connection is on PostgreSQL, where bulk statements run once."""
    return connection.dialect.name == "postgresql"


def execute_rows(
    connection: Connection, statement: BulkStatement, rows: Sequence[tuple[Any, ...]]
) -> StatementResult | None:
    """Execute a statement for rows; None without rows."""
    if not rows:
        return None
    if is_postgresql(connection):
        bound = BoundStatement(statement.postgres, statement.arrays(rows))
    else:
        bound = BoundStatement(statement.sqlite, rows, many=True)
    return execute_bound(connection, bound)


def bind_insert(
    connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]
) -> BoundStatement:
    """Bind rows (at least one, all with the same columns) for `Database.append_at_commit`."""
    names = list(rows[0])
    documents = {name for name in names if isinstance(table.c[name].type, JSON)}
    values = [
        tuple(
            to_json(row[name]).decode()
            if name in documents and row[name] is not None
            else row[name]
            for name in names
        )
        for row in rows
    ]
    head = f"INSERT INTO {table.name} ({', '.join(names)}) VALUES"
    if not is_postgresql(connection):
        return BoundStatement(f"{head} ({', '.join('?' * len(names))})", values, many=True)
    places = f"({', '.join(['%s'] * len(names))})"
    return BoundStatement(f"{head} {', '.join([places] * len(rows))}", tuple(chain(*values)))
