"""
Migration of a database to the schema of this release.

Each package with tables has a folder of Alembic scripts, `migrations/versions`, in the order of the
numbers in their names, and a version table. Several nodes may start at once: one migrates, the
others wait.

Some columns contain keyed hashes (`bridge.index_key`), and the database stores the fingerprint of
their key. A database without a fingerprint is new or from an older release: one transaction then
replaces all hashes by keyed hashes. A node of an older release must not run during this transaction
or after it.
"""

import importlib
import importlib.util
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, MetaData, inspect, text

from bridge import index_key
from bridge.store.database import Database
from bridge.store.errors import Busy, SchemaInUse, SchemaTooNew, WrongIndexKey

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
    from alembic.runtime.migration import MigrationStep  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    scripts = ScriptDirectory.from_config(config)

    def steps(revision: Any, _context: object) -> Any:
        newest_first = [*scripts.iterate_revisions(target, revision, implicit_base=True)]
        return [
            MigrationStep.upgrade_from_script(scripts.revision_map, script)
            for script in reversed(newest_first)
        ]

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
    scripts = (_folder(package) / "versions").glob("[0-9]*.py")
    return sorted(script.name.split("_", 1)[0] for script in scripts)


def is_ready(
    database: Database, package: str = PACKAGE, version_table: str = VERSION_TABLE
) -> bool:
    """True if the database has the schema of this release. Raises SchemaTooNew."""
    found = current(database, version_table)
    _refuse_newer(package, found)
    return found == heads(package)


def missing_columns(database: Database, package: str = PACKAGE) -> list[str]:
    """
    Return the columns that a migrated database does not have, as `TABLE.COLUMN`.

    SQLite stores the definition of a table as text: a damaged byte there renames a column while all
    pages are intact.
    """
    metadata: MetaData = importlib.import_module(f"{package}.tables").metadata
    with database.read() as connection:
        found = inspect(connection).get_multi_columns(filter_names=list(metadata.tables))
    known = {(table, column["name"]) for (_, table), columns in found.items() for column in columns}
    return [
        f"{table.name}.{column.name}"
        for table in metadata.sorted_tables
        for column in table.columns
        if (table.name, column.name) not in known
    ]


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


_BATCH: Final = 10_000


class KeyedColumn(NamedTuple):
    """A column of hashes; only rows that meet `condition` are hashes."""

    table: str
    column: str
    key: Callable[[Any], Any] = index_key.keyed64
    type: str = "bigint"
    condition: str = "true"


BRIDGE: Final = (
    KeyedColumn("message", "lane_1"),
    KeyedColumn("message", "lane_2"),
    KeyedColumn("message_lane", "lane"),
    KeyedColumn("delivery", "lane"),
    KeyedColumn("delivery_lane", "lane"),
    KeyedColumn("message_number", "number"),
    KeyedColumn("delivery", "sites_hash"),
    # Two kinds store a time instead of a hash (`bridge.store.records.order_index`).
    KeyedColumn("order_signal", "signal", condition="kind NOT IN ('held-later', 'opened-later')"),
)
"""Columns of the bridge's database."""
ENGINE: Final = (KeyedColumn("engine_link", "target", index_key.keyed_text, "text"),)
"""Columns of the report engine's database."""
BRIDGE_TABLE, ENGINE_TABLE = "index_key", "engine_index_key"


def fingerprint_of(database: Database, table: str) -> str | None:
    """Return the stored fingerprint; None if the rows are not keyed yet."""
    with database.read() as connection:
        return _fingerprint(connection, table)


def ensure_keyed(database: Database, table: str, columns: Iterable[KeyedColumn]) -> None:
    """Key the rows of a database that has no key yet. Raises WrongIndexKey for another key."""
    if _is_own_key(fingerprint_of(database, table)):
        return
    with database.write() as connection:
        database.serialize(connection, f"index key {table}")
        if _is_own_key(_fingerprint(connection, table)):  # another process has keyed it
            return
        for column in columns:
            (_key_in_sqlite if database.dialect == "sqlite" else _key_in_postgresql)(
                connection, column
            )
        connection.execute(
            text(f"INSERT INTO {table} (id, fingerprint) VALUES (1, :own)"),  # noqa: S608
            {"own": index_key.fingerprint()},
        )


def _is_own_key(found: str | None) -> bool:
    if found is not None and found != index_key.fingerprint():
        raise WrongIndexKey
    return found is not None


def _fingerprint(connection: Connection, table: str) -> str | None:
    if not inspect(connection).has_table(table):
        return None
    found: str | None = connection.execute(text(f"SELECT fingerprint FROM {table}")).scalar()  # noqa: S608
    return found


def _key_in_sqlite(connection: Connection, keyed: KeyedColumn) -> None:
    driver: Any = connection.connection.driver_connection
    driver.create_function("bridge_keyed", 1, keyed.key)
    table, name, condition = keyed.table, keyed.column, keyed.condition
    connection.exec_driver_sql(
        f"UPDATE {table} SET {name} = bridge_keyed({name}) WHERE {name} IS NOT NULL AND {condition}"  # noqa: S608
    )
    driver.create_function("bridge_keyed", 1, None)


def _key_in_postgresql(connection: Connection, keyed: KeyedColumn) -> None:
    """Key by a table of old and new values: the server must not see the key."""
    table, name, condition, kind = keyed.table, keyed.column, keyed.condition, keyed.type
    connection.exec_driver_sql(
        f"CREATE TEMPORARY TABLE keyed (old {kind} PRIMARY KEY, new {kind}) ON COMMIT DROP"
    )
    found = connection.exec_driver_sql(
        f"SELECT DISTINCT {name} FROM {table} WHERE {name} IS NOT NULL AND {condition}"  # noqa: S608
    ).scalars()
    fill = f"INSERT INTO keyed SELECT * FROM unnest(%(old)s::{kind}[], %(new)s::{kind}[])"  # noqa: S608
    for some in found.partitions(_BATCH):
        connection.exec_driver_sql(fill, {"old": some, "new": [keyed.key(value) for value in some]})
    connection.exec_driver_sql("ANALYZE keyed")
    connection.exec_driver_sql(
        f"UPDATE {table} AS t SET {name} = keyed.new FROM keyed"  # noqa: S608
        f" WHERE t.{name} = keyed.old AND {condition}"
    )
    connection.exec_driver_sql("DROP TABLE keyed")
