"""Bring a database to the schema this release needs.

Each package that keeps tables has its own folder of Alembic scripts, `migrations/versions`, one
after the other by the numbers that their names begin with, and its own version table. Starting
nodes at once is safe: one migrates, the others wait.
"""

import importlib.util
from pathlib import Path

from sqlalchemy import Connection, inspect, text

from bridge.store.database import Database
from bridge.store.errors import Busy, SchemaInUse, SchemaTooNew

PACKAGE = "bridge.store"
VERSION_TABLE = "alembic_version"
_NEWEST = "heads"  # Alembic's word


def upgrade(
    database: Database,
    package: str = PACKAGE,
    version_table: str = VERSION_TABLE,
    target: str = _NEWEST,
) -> tuple[str, ...]:
    """
    Migrate to the newest revision, or `target`, in one transaction; give those then in force.

    Raises SchemaTooNew where a newer release was here before, SchemaInUse where others use the
    tables, StoreUnavailable such as for a full disk: having changed nothing.
    """
    newest = heads(package)
    if target == _NEWEST and current(database, version_table) == newest:
        return newest  # nearly always
    try:
        return _upgrade(database, package, version_table, target)
    except Busy:
        raise SchemaInUse(package) from None


def _upgrade(database: Database, package: str, version_table: str, target: str) -> tuple[str, ...]:
    newest = heads(package)
    with database.write() as connection:
        if database.dialect == "postgresql":  # another node may need its time for all that is there
            connection.execute(text("SET LOCAL lock_timeout = 0"))
        database.serialize(connection, f"migrate {version_table}")
        database.set_lock_timeout(connection, None)
        database.disable_idle_timeout(connection)  # scripts may work on rows in Python
        before = _current(connection, version_table)
        _refuse_newer(package, before)
        if before != newest:
            from bridge.store.schema_upgrade import run  # noqa: PLC0415  # see there

            run(connection, _folder(package), version_table, target)
        return _current(connection, version_table)


def current(database: Database, version_table: str = VERSION_TABLE) -> tuple[str, ...]:
    """Give the revisions the database is at; none when it is empty."""
    with database.read() as connection:
        return _current(connection, version_table)


def heads(package: str = PACKAGE) -> tuple[str, ...]:
    """Give the revisions this release needs."""
    return tuple(revisions(package)[-1:])


def revisions(package: str = PACKAGE) -> list[str]:
    """Give all revisions of a package, in their order."""
    scripts = (_folder(package) / "versions").glob("[0-9]*.py")
    return sorted(script.name.split("_", 1)[0] for script in scripts)


def is_ready(
    database: Database, package: str = PACKAGE, version_table: str = VERSION_TABLE
) -> bool:
    """Tell whether the database is at the schema this release needs. Raises SchemaTooNew."""
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
    # Our own name, one of two.
    found = connection.execute(text(f"SELECT version_num FROM {version_table}"))  # noqa: S608
    return tuple(sorted(found.scalars()))


def _refuse_newer(package: str, found: tuple[str, ...]) -> None:
    known = set(revisions(package))
    if unknown := tuple(revision for revision in found if revision not in known):
        raise SchemaTooNew(package, unknown)
