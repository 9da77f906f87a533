"""The migrated schema equals the row classes, on both databases."""

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from bridge.engine.records.tables import metadata
from bridge.store.database import Database
from bridge.store.migration import is_ready, upgrade

PACKAGE, TABLE = "bridge.engine.records", "alembic_engine"


def test_the_migrated_schema_equals_the_row_classes(database: Database) -> None:
    """Alembic finds no difference; a second migration changes nothing."""
    upgrade(database, PACKAGE, TABLE)
    upgrade(database, PACKAGE, TABLE)

    assert is_ready(database, PACKAGE, TABLE)
    with database.read() as connection:
        options = {"version_table": TABLE, "compare_type": True, "include_name": _is_ours}
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, metadata) == []


def _is_ours(name: str | None, kind: str, _: object) -> bool:
    return kind != "table" or (name or "").startswith("engine_")
