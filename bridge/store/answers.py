"""
Statements of the driver itself within a transaction, for what each message asks again and again.

SQLAlchemy makes and ends an execution for each statement, which costs as much again as a short one.
Whoever listens to an engine's statements hears of these too.
"""

from collections import namedtuple
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection

_MOST_KNOWN = 2000  # texts; there are some hundreds, and few that have a number written out

_columns: dict[tuple[str, str], tuple[str, ...]] = {}
"""
By dialect and text: the names of its columns, () where it finds no rows.

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


def run(connection: Connection, statement: str, values: Any, *, many: bool = False) -> Answer:
    """
    Run a statement in the driver's own form; `many`: once for each of the values.

    Errors are the driver's; `Database` translates those that leave a transaction.
    """
    heeded = connection.dispatch
    if heeded.before_cursor_execute or heeded.after_cursor_execute:
        heard = connection.exec_driver_sql(statement, values)
        rows = heard.all() if heard.returns_rows else ()
        return Answer(tuple(heard.keys()) if heard.returns_rows else (), rows, heard.rowcount)
    cursor: Any = connection.connection.cursor()
    try:
        (cursor.executemany if many else cursor.execute)(statement, values)
        if many:
            return Answer((), (), cursor.rowcount)
        text = (connection.dialect.name, statement)
        names = _columns.get(text)
        if names is None:
            names = _learn(text, cursor)
        return Answer(names, cursor.fetchall() if names else (), cursor.rowcount)
    finally:
        cursor.close()


def _learn(text: tuple[str, str], cursor: Any) -> tuple[str, ...]:
    if len(_columns) >= _MOST_KNOWN:
        _columns.clear()
    names = tuple(column[0] for column in cursor.description or ())
    return _columns.setdefault(text, names)


@cache
def _kind(names: tuple[str, ...]) -> Any:
    """Give what makes a row of a tuple; there are as many kinds as statements."""
    return _named("Row", names, rename=True)._make
