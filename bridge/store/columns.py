"""Columns with the same meaning on SQLite and PostgreSQL, for the classes of tables."""

from typing import Any

from sqlalchemy import JSON, BigInteger, Integer, LargeBinary
from sqlmodel import Field

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
