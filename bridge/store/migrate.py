"""
Bring a database to the schema this release needs.

Each package that keeps tables has its own folder of Alembic scripts, `migrations/versions`,
and its own version table. Starting nodes at once is safe: one migrates, the others wait.
"""

import importlib.util
from pathlib import Path
from typing import Any

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from bridge.store.database import Database
from bridge.store.errors import SchemaTooNew

PACKAGE = "bridge.store"
VERSION_TABLE = "alembic_version"


def upgrade(
    database: Database,
    package: str = PACKAGE,
    version_table: str = VERSION_TABLE,
    target: str = "heads",
) -> tuple[str, ...]:
    """
    Migrate to the newest revision, or `target`, in one transaction; give those then in force.

    Raises SchemaTooNew, having changed nothing, where a newer release was here before.
    """
    scripts = _scripts(package)
    with database.write() as connection:
        database.serialize(connection, f"migrate {version_table}")
        before = _current(connection, version_table)
        _refuse_newer(scripts, package, before)
        if set(before) != set(scripts.get_heads()):
            _run(connection, scripts, version_table, target)
        return _current(connection, version_table)


def current(database: Database, version_table: str = VERSION_TABLE) -> tuple[str, ...]:
    """Give the revisions the database is at; none when it is empty."""
    with database.read() as connection:
        return _current(connection, version_table)


def heads(package: str = PACKAGE) -> tuple[str, ...]:
    """Give the revisions this release needs."""
    return tuple(sorted(_scripts(package).get_heads()))


def is_ready(
    database: Database, package: str = PACKAGE, version_table: str = VERSION_TABLE
) -> bool:
    """Tell whether the database is at the schema this release needs. Raises SchemaTooNew."""
    found = current(database, version_table)
    _refuse_newer(_scripts(package), package, found)
    return found == heads(package)


def _scripts(package: str) -> ScriptDirectory:
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError(package)
    folder = Path(found.submodule_search_locations[0]) / "migrations"
    config = Config()
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return ScriptDirectory.from_config(config)


def _current(connection: Connection, version_table: str) -> tuple[str, ...]:
    context = MigrationContext.configure(connection, opts={"version_table": version_table})
    return tuple(sorted(context.get_current_heads()))


def _refuse_newer(scripts: ScriptDirectory, package: str, found: tuple[str, ...]) -> None:
    known = {script.revision for script in scripts.walk_revisions()}
    if unknown := tuple(revision for revision in found if revision not in known):
        raise SchemaTooNew(package, unknown)


def _run(connection: Connection, scripts: ScriptDirectory, version_table: str, target: str) -> None:
    def steps(revision: Any, context: MigrationContext) -> Any:
        return scripts._upgrade_revs(target, revision)  # noqa: SLF001  # as alembic.command does

    with EnvironmentContext(Config(), scripts, fn=steps) as environment:
        environment.configure(connection=connection, version_table=version_table)
        environment.run_migrations()
