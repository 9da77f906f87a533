"""Requirements of the PostgreSQL server and of our role, checked by `bridge check`."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from sqlalchemy import Row, text

from bridge.store.database import Database

MIN_VERSION: Final = 15
"""The oldest supported version, as of this release."""

_QUERY: Final = text("""
    SELECT current_setting('server_version_num')::int / 10000 AS version,
        current_setting('server_version') AS named,
        current_setting('server_encoding') AS encoding,
        current_setting('fsync') AS fsync,
        current_setting('data_checksums') AS checksums,
        (SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit') AS synchronous,
        current_setting('synchronous_standby_names') <> '' AS has_synchronous_standbys,
        (SELECT count(*) FROM pg_stat_replication) AS standbys,
        current_user AS role,
        current_schema() AS schema,
        COALESCE(has_schema_privilege(current_schema(), 'CREATE'), false) AS may_create,
        (
            SELECT count(*) FROM pg_class AS c
            WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
                AND NOT (
                    has_table_privilege(c.oid, 'SELECT')
                    AND has_table_privilege(c.oid, 'INSERT')
                    AND has_table_privilege(c.oid, 'UPDATE')
                    AND has_table_privilege(c.oid, 'DELETE')
                )
        ) AS inaccessible_tables
""")


class ServerProblem(NamedTuple):
    """A problem of the server; `is_fatal`: nothing can be stored."""

    is_fatal: bool
    text: str


def server_problems(database: Database) -> Iterator[ServerProblem]:
    """Yield problems with a remedy. Raises StoreError."""
    if database.dialect != "postgresql":
        return
    with database.read() as connection:
        found = connection.execute(_QUERY).one()
    if found.version < MIN_VERSION:
        message = (
            f"PostgreSQL {found.named} is no longer supported: {MIN_VERSION} or newer is required"
        )
        yield ServerProblem(False, message)
    if found.encoding != "UTF8":
        message = (
            f"its encoding is {found.encoding}: create the database again with ENCODING 'UTF8'"
        )
        yield ServerProblem(True, message)
    if found.fsync == "off":
        message = "fsync is off: a power cut loses acknowledged messages; switch it on"
        yield ServerProblem(False, message)
    if found.checksums == "off":
        message = "data checksums are off: the server does not notice that a disk changed its pages"
        yield ServerProblem(False, f"{message}; stop it and run pg_checksums --enable")
    yield from _failover(found)
    if not found.may_create:
        where = found.schema or "public"
        message = (
            f"role {found.role} may not create tables: GRANT USAGE, CREATE ON SCHEMA {where} TO it"
        )
        yield ServerProblem(True, message)
    if found.inaccessible_tables:
        message = (
            f"role {found.role} may not use {found.inaccessible_tables} tables: make it their owner"
        )
        yield ServerProblem(True, message)


def _failover(found: Row[Any]) -> Iterator[ServerProblem]:
    """Yield what a failover to a standby can lose."""
    setting = found.synchronous
    if setting == "local":
        message = "synchronous_commit is local: commits do not wait for standbys"
        yield ServerProblem(
            False, f"{message}, and a failover can lose acknowledged messages; set it to on"
        )
    elif setting == "off":
        message = "synchronous_commit is off: the bridge sets it to on for its own connections"
        yield ServerProblem(False, f"{message}, set it to on with ALTER ROLE or ALTER SYSTEM")
    if found.standbys and not found.has_synchronous_standbys:
        message = f"{found.standbys} standbys are asynchronous"
        advice = "set synchronous_standby_names, and database.require_synchronous"
        yield ServerProblem(
            False, f"{message}: a failover can lose acknowledged messages; {advice}"
        )
