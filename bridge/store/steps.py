"""
One deed over many rows: a statement for each database, in the way that costs it least.

SQLite runs a prepared statement for each row. A server is asked once for all of them: PostgreSQL
unnests arrays, which are one value and not a list that the driver reads again and again. The
statements are their owners'.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import Connection

from bridge.store.answers import Answer, Words, carry
from bridge.store.arrays import Packed, packed

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
