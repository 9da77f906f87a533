"""
Column types that mean the same on SQLite and PostgreSQL.

No tables: those belong to the packages that keep them.
"""

from datetime import UTC, datetime

from sqlalchemy import JSON, BigInteger, DateTime, Dialect, Integer
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeDecorator
from typing_extensions import override

BIG_KEY = BigInteger().with_variant(Integer(), "sqlite")
"""A 64-bit key; on SQLite the only spelling that counts up by itself."""

DOCUMENT = JSON().with_variant(JSONB(), "postgresql")
"""A JSON document."""


class Instant(TypeDecorator[datetime]):
    """An aware point in time: UTC in the database and in Python, on either dialect."""

    impl = DateTime(timezone=True)
    cache_ok = True

    @override
    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a point in time needs its zone")
        return value.astimezone(UTC)

    @override
    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        # SQLite keeps no zone; PostgreSQL answers in the session's.
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
