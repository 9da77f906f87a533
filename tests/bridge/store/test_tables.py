"""The migrated schema of the bridge equals the classes of its tables."""

from typing import Any

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Column, Text
from sqlmodel.sql.sqltypes import AutoString

from bridge.store.database import Database
from bridge.store.tables import metadata


def test_the_migrated_schema_equals_the_classes_of_the_tables(database: Database) -> None:
    """Alembic finds no difference between the migrations and `bridge.store.tables`."""
    with database.read() as connection:
        options = {"compare_type": _is_other_type, "include_name": _is_ours}
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, metadata) == []


def _is_ours(name: str | None, kind: str, _: object) -> bool:
    return kind != "table" or name in metadata.tables


def _is_other_type(
    _context: object, _found: Column[Any], _ours: Column[Any], found: Any, ours: Any
) -> bool | None:
    """Both databases store a text without a length as they store a TEXT."""
    is_text = isinstance(found, Text) and isinstance(ours, AutoString)
    return False if is_text else None
