"""
Statements of the driver itself within a transaction, for what each message asks again and again.

SQLAlchemy makes and ends an execution for each statement, which costs as much again as a short one.
Whoever listens to an engine's statements hears of these too.
"""

from collections import namedtuple
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

from pydantic_core import from_json
from sqlalchemy import Connection

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
