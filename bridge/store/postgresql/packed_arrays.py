"""Teaches the driver of PostgreSQL to take the arrays of `bridge.store.postgresql.connection` as
they are.

Loaded with the driver, which a house on SQLite does without.
"""

import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format
from typing_extensions import override

from bridge.store.postgresql.connection import Packed


class _Dumper(Dumper):
    """Hands it to the driver; the statement's cast says of what type it is."""

    format = Format.BINARY

    @override
    def dump(self, obj: Packed) -> bytes:
        return obj.data


def be_known() -> None:
    """Register with the driver; once more does no harm."""
    psycopg.adapters.register_dumper(Packed, _Dumper)
