"""Column types with the same meaning on SQLite and PostgreSQL."""

from sqlalchemy import BigInteger, Integer

BIG_KEY = BigInteger().with_variant(Integer(), "sqlite")
"""A 64-bit key; `INTEGER` on SQLite, where only that type is assigned automatically."""
