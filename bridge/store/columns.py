"""Column types with the same meaning on SQLite and PostgreSQL."""

from datetime import UTC, datetime

from sqlalchemy import JSON, BigInteger, DateTime, Dialect, Integer
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeDecorator
from typing_extensions import override

BIG_KEY = BigInteger().with_variant(Integer(), "sqlite")
"""A 64-bit key; `INTEGER` on SQLite, where only that type is assigned automatically."""

DOCUMENT = JSON().with_variant(JSONB(), "postgresql")
"""A JSON document."""


class Instant(TypeDecorator[datetime]):
    """A point in time with time zone: UTC in the database and in Python, on both dialects."""

    impl = DateTime(timezone=True)
    cache_ok = True

    @override
    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a point in time needs a time zone")
        return value.astimezone(UTC)

    @override
    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        # SQLite stores no zone; PostgreSQL returns the session's.
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
