"""
The few kinds of columns that the engine's tables are made of.

Moments are integers, milliseconds since the Unix epoch, so that both databases compare them alike.
JSON stays text-like (`JSON`, not `JSONB`), because the order of a sender's Metadata keys is kept.
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
    """A row of the engine: its tables are in a catalogue of their own, apart from the bridge's."""

    metadata = metadata

    @override
    def __repr__(self) -> str:
        """Name the table only: a row may hold what no log may show."""
        return f"<{type(self).__name__}>"

    __str__ = __repr__


def key() -> Any:
    """Give the surrogate key of a table: a number that the database hands out."""
    return Field(default=None, primary_key=True, sa_type=BIG_KEY)


def moment(*, index: bool = False) -> Any:
    """Give a moment that must be known, in milliseconds since the epoch."""
    return Field(sa_type=BigInteger, index=index)


def moment_or_none() -> Any:
    """Give a moment that may not have come, in milliseconds since the epoch."""
    return Field(default=None, sa_type=BigInteger)


def foreign_key_to(
    target: str,
    *,
    required: bool = True,
    index: bool = True,
    on_delete: Literal["CASCADE", "SET NULL"] | None = None,
) -> Any:
    """Give a reference to another table's key, such as `engine_report.pk`."""
    options: dict[str, Any] = {} if required else {"default": None}
    if on_delete:
        options["ondelete"] = on_delete
    return Field(**options, foreign_key=target, sa_type=BIG_KEY, index=index, nullable=not required)


def json_object() -> Any:
    """Give a JSON object, empty at first; replace it, never change it in place."""
    return Field(default_factory=dict, sa_type=JSON)


def json_list() -> Any:
    """Give a JSON list, empty at first; replace it, never change it in place."""
    return Field(default_factory=list, sa_type=JSON)


def json_or_none() -> Any:
    """Give a JSON value that may be missing."""
    return Field(default=None, sa_type=JSON(none_as_null=True))


def binary() -> Any:
    """Give a column of bytes."""
    return Field(sa_type=LargeBinary)


def binary_or_none() -> Any:
    """Give a column of bytes that may be missing."""
    return Field(default=None, sa_type=LargeBinary)


def enum_type(kind: type[StrEnum]) -> Any:
    """Give the column type of a closed set: stored as its word, read back as its member."""
    return Enum(
        kind,
        native_enum=False,
        create_constraint=False,
        length=32,
        values_callable=lambda members: [member.value for member in members],
    )
