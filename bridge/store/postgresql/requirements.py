"""Whether a PostgreSQL server and our role there are such that messages can be kept.

Asked by `bridge check`; a start finds out by itself. SQLite's files have nothing to ask.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from sqlalchemy import Row, text

from bridge.store.database import Database

OLDEST: Final = 15
"""The oldest version that is still mended, as of this release."""

_ASK: Final = text("""
    SELECT current_setting('server_version_num')::int / 10000 AS version,
        current_setting('server_version') AS named,
        current_setting('server_encoding') AS encoding,
        current_setting('fsync') AS fsync,
        (SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit') AS synchronous,
        current_setting('synchronous_standby_names') <> '' AS has_synchronous_standbys,
        (SELECT count(*) FROM pg_stat_replication) AS standbys,
        current_user AS role,
        current_schema() AS place,
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
        ) AS closed
""")


class ServerProblem(NamedTuple):
    """What is wrong with a server; `is_fatal`: nothing can be kept there."""

    is_fatal: bool
    text: str


def server_problems(database: Database) -> Iterator[ServerProblem]:
    """Say what is wrong, and what to do. Raises StoreError."""
    if database.dialect != "postgresql":
        return
    with database.read() as connection:
        found = connection.execute(_ASK).one()
    if found.version < OLDEST:
        told = f"PostgreSQL {found.named} is not mended any more: {OLDEST} or newer is wanted"
        yield ServerProblem(False, told)
    if found.encoding != "UTF8":
        told = f"its encoding is {found.encoding}: make the database anew with ENCODING 'UTF8'"
        yield ServerProblem(True, told)
    if found.fsync == "off":
        told = "fsync is off: a power cut loses what was acknowledged; switch it on"
        yield ServerProblem(False, told)
    yield from _failover(found)
    if not found.may_create:
        where = found.place or "public"
        told = f"role {found.role} may make no tables: GRANT USAGE, CREATE ON SCHEMA {where} TO it"
        yield ServerProblem(True, told)
    if found.closed:
        told = f"role {found.role} may not use {found.closed} tables: make it their owner"
        yield ServerProblem(True, told)


def _failover(found: Row[Any]) -> Iterator[ServerProblem]:
    """Say what a failover to a standby can lose."""
    setting = found.synchronous
    if setting == "local":
        told = "synchronous_commit is local: commits do not wait for standbys"
        yield ServerProblem(
            False, f"{told}, and a failover can lose what was acknowledged; set it to on"
        )
    elif setting == "off":
        told = "synchronous_commit is off: the bridge sets it to on for its own connections"
        yield ServerProblem(False, f"{told}, let ALTER ROLE or ALTER SYSTEM say the same")
    if found.standbys and not found.has_synchronous_standbys:
        told = f"{found.standbys} standbys are asynchronous"
        advice = "set synchronous_standby_names, and database.require_synchronous"
        yield ServerProblem(False, f"{told}: a failover can lose what was acknowledged; {advice}")
