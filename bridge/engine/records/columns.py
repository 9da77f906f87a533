"""
The column types of the engine's tables.

Moments are integers, milliseconds since the Unix epoch, so that both databases compare them alike.
The type of JSON columns is `JSON`, not `JSONB`, because the order of a sender's Metadata keys is
kept.
"""

from enum import StrEnum
from typing import Any, Literal

from sqlalchemy import JSON, BigInteger, Enum, LargeBinary, MetaData
from sqlmodel import Field, SQLModel
from typing_extensions import override

from bridge.store.columns import BIG_KEY

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class Record(SQLModel):
    """The base of all tables of the engine. The bridge's tables have other metadata."""

    metadata = metadata

    @override
    def __repr__(self) -> str:
        """Show the class name only: a row may contain data that must not be logged."""
        return f"<{type(self).__name__}>"

    __str__ = __repr__


def key() -> Any:
    """Return the surrogate key of a table: a number that the database assigns."""
    return Field(default=None, primary_key=True, sa_type=BIG_KEY)


def moment(*, index: bool = False) -> Any:
    """Return a required moment, in milliseconds since the epoch."""
    return Field(sa_type=BigInteger, index=index)


def moment_or_none() -> Any:
    """Return an optional moment, in milliseconds since the epoch."""
    return Field(default=None, sa_type=BigInteger)


def foreign_key_to(
    target: str,
    *,
    required: bool = True,
    index: bool = True,
    on_delete: Literal["CASCADE", "SET NULL"] | None = None,
) -> Any:
    """Return a reference to another table's key, such as `engine_report.pk`."""
    options: dict[str, Any] = {} if required else {"default": None}
    if on_delete:
        options["ondelete"] = on_delete
    return Field(**options, foreign_key=target, sa_type=BIG_KEY, index=index, nullable=not required)


def json_object() -> Any:
    """Return a JSON object, initially empty. Replace it: changes in place are not noticed."""
    return Field(default_factory=dict, sa_type=JSON)


def json_list() -> Any:
    """Return a JSON list, initially empty. Replace it: changes in place are not noticed."""
    return Field(default_factory=list, sa_type=JSON)


def json_or_none() -> Any:
    return Field(default=None, sa_type=JSON(none_as_null=True))


def binary() -> Any:
    """Return a column of bytes."""
    return Field(sa_type=LargeBinary)


def binary_or_none() -> Any:
    """Return an optional column of bytes."""
    return Field(default=None, sa_type=LargeBinary)


def enum_type(kind: type[StrEnum]) -> Any:
    """Return the column type of an enumeration: stored as its value, read as its member."""
    return Enum(
        kind,
        native_enum=False,
        create_constraint=False,
        length=32,
        values_callable=lambda members: [member.value for member in members],
    )
