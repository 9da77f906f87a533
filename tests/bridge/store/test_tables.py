"""The migrated schema of the bridge equals the classes of its tables."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Column, Text
from sqlalchemy.sql.base import ReadOnlyColumnCollection
from sqlmodel.sql.sqltypes import AutoString

from bridge.store.database import Database
from bridge.store.tables import metadata

ROOT = Path(__file__).parents[3]


def test_the_migrated_schema_equals_the_classes_of_the_tables(database: Database) -> None:
    """Alembic finds no difference between the migrations and `bridge.store.tables`."""
    with database.read() as connection:
        options = {"compare_type": _is_other_type, "include_name": _is_ours}
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, metadata) == []


def test_statements_name_columns_of_their_tables() -> None:
    """A column that `TABLE.c` lacks fails only when its statement runs."""
    checked = 0
    for path in sorted((ROOT / "bridge").rglob("*.py")):
        used = re.findall(r"(?<![\w.])(\w+)\.c\.(\w+)", path.read_text("utf-8"))
        if not used or "versions" in path.parts:
            continue
        module = import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
        for name, column in used:
            columns = getattr(getattr(module, name, None), "c", None)
            if isinstance(columns, ReadOnlyColumnCollection):
                checked += 1
                known = column in columns or hasattr(columns, column)
                assert known, f"{path.relative_to(ROOT)}: {name} has no column {column}"
    assert checked > 100


def _is_ours(name: str | None, kind: str, _: object) -> bool:
    return kind != "table" or name in metadata.tables


def _is_other_type(
    _context: object, _found: Column[Any], _ours: Column[Any], found: Any, ours: Any
) -> bool | None:
    """Both databases store a text without a length as they store a TEXT."""
    is_text = isinstance(found, Text) and isinstance(ours, AutoString)
    return False if is_text else None
