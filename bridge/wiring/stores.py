"""Open the databases of a home, and bring them to this release's schema."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bridge.store.database import Database
from bridge.store.migrate import is_ready, upgrade
from bridge.store.partitions import make_room
from bridge.store.pool import Pool
from config import Settings, load

ENGINE_PACKAGE: Final = "bridge.engine.records"
ENGINE_VERSIONS: Final = "alembic_engine"


def open_bridge_database(settings: Settings) -> Database:
    """Open the bridge's own database; nothing is migrated here."""
    return Database(settings.database_url(), _pool(settings))


@contextmanager
def bridge_database(home: Path) -> Iterator[Database]:
    """Open the bridge's database of a home for a command, migrated."""
    database = open_bridge_database(load(home))
    try:
        migrate_bridge(database)
        yield database
    finally:
        database.dispose()


def open_engine_database(settings: Settings, pool: Pool | None = None) -> Database:
    """Open the internal engine's database; nothing is migrated here."""
    return Database(settings.engine_database_url(), pool or _pool(settings))


def migrate_bridge(database: Database) -> tuple[str, ...]:
    """Bring the bridge's tables to this release, with room; give the revisions then in force."""
    revisions = upgrade(database)
    make_room(database)
    return revisions


def migrate_engine(database: Database) -> tuple[str, ...]:
    """Bring the engine's tables to this release; give the revisions then in force."""
    return upgrade(database, ENGINE_PACKAGE, ENGINE_VERSIONS)


def bridge_is_ready(database: Database) -> bool:
    """Tell whether the bridge's tables are at this release. Raises SchemaTooNew."""
    return is_ready(database)


def engine_is_ready(database: Database) -> bool:
    """Tell whether the engine's tables are at this release. Raises SchemaTooNew."""
    return is_ready(database, ENGINE_PACKAGE, ENGINE_VERSIONS)


def migrate_all(settings: Settings) -> dict[str, tuple[str, ...]]:
    """Migrate every database of a home; the engine's only where it is our own."""
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


def _pool(settings: Settings) -> Pool:
    kept = settings.database
    return Pool(kept.pool_size, kept.pool_overflow, kept.pool_timeout)
