"""
Migration of a database to the schema of this release.

Each package with tables has a folder of Alembic scripts, `migrations/versions`, in the order of the
numbers in their names, and a version table. Several nodes may start at once: one migrates, the
others wait.
"""

import importlib.util
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, inspect, text

from bridge.store.database import Database
from bridge.store.errors import Busy, SchemaInUse, SchemaTooNew

PACKAGE = "bridge.store"
VERSION_TABLE = "alembic_version"
_HEADS = "heads"  # Alembic's name of the newest revision


def upgrade(
    database: Database,
    package: str = PACKAGE,
    version_table: str = VERSION_TABLE,
    target: str = _HEADS,
) -> tuple[str, ...]:
    """
    Migrate to the newest revision, or `target`, in one transaction; return the current revisions.

    Raises SchemaTooNew if a newer release has migrated the database, SchemaInUse if other sessions
    use the tables, StoreUnavailable such as for a full disk. After an error nothing has changed.
    """
    newest = heads(package)
    if target == _HEADS and current(database, version_table) == newest:
        return newest  # the usual case
    try:
        return _upgrade(database, package, version_table, target)
    except Busy:
        raise SchemaInUse(package) from None


def _upgrade(database: Database, package: str, version_table: str, target: str) -> tuple[str, ...]:
    newest = heads(package)
    with database.write() as connection:
        if database.dialect == "postgresql":  # another node may be migrating for long
            connection.execute(text("SET LOCAL lock_timeout = 0"))
        database.serialize(connection, f"migrate {version_table}")
        database.set_lock_timeout(connection, None)
        database.disable_idle_timeout(connection)  # scripts may process rows in Python
        before = _current(connection, version_table)
        _refuse_newer(package, before)
        if before != newest:
            run_scripts(connection, _folder(package), version_table, target)
        return _current(connection, version_table)


def run_scripts(connection: Connection, folder: Path, version_table: str, target: str) -> None:
    """Run the scripts of a folder up to `target`, in the caller's transaction."""
    # Alembic is large, and a start rarely needs it.
    from alembic.config import Config  # noqa: PLC0415
    from alembic.runtime.environment import EnvironmentContext  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    scripts = ScriptDirectory.from_config(config)

    def steps(revision: Any, _context: object) -> Any:
        return scripts._upgrade_revs(target, revision)  # noqa: SLF001  # as alembic.command does

    with EnvironmentContext(Config(), scripts, fn=steps) as environment:
        environment.configure(connection=connection, version_table=version_table)
        environment.run_migrations()


def current(database: Database, version_table: str = VERSION_TABLE) -> tuple[str, ...]:
    """Return the revisions of a database; none if it is empty."""
    with database.read() as connection:
        return _current(connection, version_table)


def heads(package: str = PACKAGE) -> tuple[str, ...]:
    """Return the revision that this release needs."""
    return tuple(revisions(package)[-1:])


def revisions(package: str = PACKAGE) -> list[str]:
    """Return all revisions of a package in order."""
    scripts = (_folder(package) / "versions").glob("[0-9]*.py")
    return sorted(script.name.split("_", 1)[0] for script in scripts)


def is_ready(
    database: Database, package: str = PACKAGE, version_table: str = VERSION_TABLE
) -> bool:
    """Tell whether the database has the schema of this release. Raises SchemaTooNew."""
    found = current(database, version_table)
    _refuse_newer(package, found)
    return found == heads(package)


def _folder(package: str) -> Path:
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError(package)
    return Path(found.submodule_search_locations[0]) / "migrations"


def _current(connection: Connection, version_table: str) -> tuple[str, ...]:
    if not inspect(connection).has_table(version_table):
        return ()
    # The name is one of two constants.
    found = connection.execute(text(f"SELECT version_num FROM {version_table}"))  # noqa: S608
    return tuple(sorted(found.scalars()))


def _refuse_newer(package: str, found: tuple[str, ...]) -> None:
    known = set(revisions(package))
    if unknown := tuple(revision for revision in found if revision not in known):
        raise SchemaTooNew(package, unknown)
