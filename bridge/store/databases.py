"""Databases of a data directory: open them, and migrate them to the schema of this release."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bridge import index_key
from bridge.store import migration
from bridge.store.database import Database
from bridge.store.migration import is_ready, upgrade
from bridge.store.options import DatabaseOptions
from bridge.store.postgresql.partitions import create_ahead
from config import Settings, load
from config.private_files import make_folder, write_new
from config.secret_files import new_index_key, read_index_key
from config.toml_text import Mistake, SettingsError

ENGINE_PACKAGE: Final = "bridge.engine.records"
ENGINE_VERSIONS: Final = "alembic_engine"
_NO_KEY: Final = (
    "is missing, and the database has keyed rows: copy the file from another node that uses the "
    "database, or from its backup"
)


def open_bridge_database(settings: Settings) -> Database:
    """Open the bridge's database without migrating it. Raises SettingsError."""
    database = Database(settings.database_url(), _options(settings))
    _use_index_key(settings, database, migration.BRIDGE_TABLE)
    return database


@contextmanager
def bridge_database(home: Path) -> Iterator[Database]:
    """Open and migrate the bridge's database for a command."""
    with bridge_database_of(load(home)) as database:
        yield database


@contextmanager
def bridge_database_of(settings: Settings) -> Iterator[Database]:
    database = open_bridge_database(settings)
    try:
        migrate_bridge(database)
        yield database
    finally:
        database.dispose()


def open_engine_database(settings: Settings) -> Database:
    """Open the internal engine's database without migrating it. Raises SettingsError."""
    database = Database(settings.engine_database_url(), _options(settings))
    _use_index_key(settings, database, migration.ENGINE_TABLE)
    return database


def migrate_bridge(database: Database) -> tuple[str, ...]:
    """Migrate the bridge's tables, and create partitions; return the revisions."""
    revisions = upgrade(database)
    database.synchronous_commit.require()
    migration.ensure_keyed(database, migration.BRIDGE_TABLE, migration.BRIDGE)
    create_ahead(database)
    return revisions


def migrate_engine(database: Database) -> tuple[str, ...]:
    """Migrate the engine's tables; return the revisions."""
    revisions = upgrade(database, ENGINE_PACKAGE, ENGINE_VERSIONS)
    database.synchronous_commit.require()
    migration.ensure_keyed(database, migration.ENGINE_TABLE, migration.ENGINE)
    return revisions


def bridge_is_ready(database: Database) -> bool:
    """True if the bridge's tables are migrated. Raises SchemaTooNew."""
    return is_ready(database) and _is_keyed(database, migration.BRIDGE_TABLE)


def engine_is_ready(database: Database) -> bool:
    """True if the engine's tables are migrated. Raises SchemaTooNew."""
    ready = is_ready(database, ENGINE_PACKAGE, ENGINE_VERSIONS)
    return ready and _is_keyed(database, migration.ENGINE_TABLE)


def migrate_all(settings: Settings) -> dict[str, tuple[str, ...]]:
    """Migrate the bridge's database, and that of the internal engine."""
    done = {}
    database = open_bridge_database(settings)
    try:
        done["bridge"] = migrate_bridge(database)
    finally:
        database.dispose()
    if settings.engine.is_internal:
        engine = open_engine_database(settings)
        try:
            done["engine"] = migrate_engine(engine)
        finally:
            engine.dispose()
    return done


def _is_keyed(database: Database, table: str) -> bool:
    return migration.fingerprint_of(database, table) is not None


def _use_index_key(settings: Settings, database: Database, table: str) -> None:
    """
    Install the index key in this process; create the key if no rows are keyed yet.

    If the database cannot be read, no key is created; the first use of the database reports it.
    """
    path = settings.path(settings.database.index_key_file)
    if not path.exists():
        if migration.fingerprint_of(database, table) is not None:
            raise SettingsError([Mistake(str(path), _NO_KEY)])
        make_folder(path.parent)
        write_new(path, new_index_key())
    index_key.install(read_index_key(path))


def _options(settings: Settings) -> DatabaseOptions:
    kept = settings.database
    return DatabaseOptions(
        kept.pool_size,
        kept.pool_overflow,
        kept.pool_timeout,
        kept.require_synchronous,
        lease_clock=True,
    )
