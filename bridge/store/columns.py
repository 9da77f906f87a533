"""
Columns with the same meaning on SQLite and PostgreSQL, for the classes of tables.

`one_of` compares a column with a list of values.
"""

import json
from collections.abc import Collection
from typing import Any, cast

from sqlalchemy import (
    ARRAY,
    JSON,
    BigInteger,
    ColumnElement,
    Dialect,
    Integer,
    LargeBinary,
    SQLColumnExpression,
    Text,
    bindparam,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine
from sqlmodel import Field
from typing_extensions import override

BIG_KEY = BigInteger().with_variant(Integer(), "sqlite")
"""A 64-bit key; `INTEGER` on SQLite, where only that type is assigned automatically."""


def key() -> Any:
    """Return the surrogate key of a table: a number that the database assigns."""
    return Field(default=None, primary_key=True, sa_type=BIG_KEY)


def moment(*, index: bool = False) -> Any:
    """Return a required moment, in milliseconds since the epoch."""
    return Field(sa_type=BigInteger, index=index)


def moment_or_none() -> Any:
    """Return an optional moment, in milliseconds since the epoch."""
    return Field(default=None, sa_type=BigInteger)


def big_number(*, primary_key: bool = False) -> Any:
    """Return a required 64-bit number."""
    return Field(sa_type=BigInteger, primary_key=primary_key)


def json_object() -> Any:
    """Return a JSON object, initially empty. Replace it: changes in place are not noticed."""
    return Field(default_factory=dict, sa_type=JSON)


def json_or_none() -> Any:
    return Field(default=None, sa_type=JSON(none_as_null=True))


def binary() -> Any:
    """Return a column of bytes."""
    return Field(sa_type=LargeBinary)


class ListParameter(TypeDecorator[Collection[Any]]):
    """A list of values as one parameter: an array on PostgreSQL, a JSON text on SQLite."""

    impl = Text
    cache_ok = True

    def __init__(self, item_type: TypeEngine[Any]) -> None:
        super().__init__()
        self.item_type = item_type

    @override
    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        is_array = dialect.name == "postgresql"
        return dialect.type_descriptor(ARRAY(self.item_type) if is_array else Text())

    @override
    def process_bind_param(self, value: Collection[Any] | None, dialect: Dialect) -> Any:
        values = list(value or ())
        return values if dialect.name == "postgresql" else json.dumps(values)


class _OneOf(FunctionElement[bool]):
    # Without the type Boolean, for which SQLAlchemy adds `= 1` on SQLite: it would use no index.
    inherit_cache = True


def one_of(column: SQLColumnExpression[Any], name: str) -> ColumnElement[bool]:
    """
    Return the condition that a column has one of the values of the list parameter `name`.

    Unlike `in_`, the text of the statement does not depend on the number of values, so neither
    SQLAlchemy nor the driver prepares it again.
    """
    item_type = cast(ColumnElement[Any], column).type  # an attribute of a class has it, too
    return _OneOf(column, bindparam(name, type_=ListParameter(item_type)))


@compiles(_OneOf, "sqlite")
def _in_json(element: _OneOf, compiler: SQLCompiler, **options: Any) -> str:
    column, values = (compiler.process(part, **options) for part in element.clauses)
    return f"{column} IN (SELECT value FROM json_each({values}))"  # noqa: S608  # compiled parts


@compiles(_OneOf, "postgresql")
def _in_array(element: _OneOf, compiler: SQLCompiler, **options: Any) -> str:
    column, values = (compiler.process(part, **options) for part in element.clauses)
    return f"{column} = ANY ({values})"
