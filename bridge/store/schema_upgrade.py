"""Take a database from one revision to another, by Alembic.

Loaded only where there is something to do: a large library, and a start nearly never needs it.
"""

from pathlib import Path
from typing import Any

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection


def run(connection: Connection, folder: Path, version_table: str, target: str) -> None:
    """Run the scripts of a folder up to `target`, in the caller's transaction."""
    config = Config()
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    scripts = ScriptDirectory.from_config(config)

    def steps(revision: Any, context: MigrationContext) -> Any:
        return scripts._upgrade_revs(target, revision)  # noqa: SLF001  # as alembic.command does

    with EnvironmentContext(Config(), scripts, fn=steps) as environment:
        environment.configure(connection=connection, version_table=version_table)
        environment.run_migrations()
