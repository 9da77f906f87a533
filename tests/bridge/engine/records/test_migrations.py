"""The migrated schema equals the row classes, and migrations keep the data."""

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import select, text
from sqlmodel import col

from bridge.engine.records.tables import SiteMembership, metadata
from bridge.store.database import Database
from bridge.store.migration import is_ready, upgrade
from tests.bridge.store.test_migration import empty

__all__ = ["empty"]  # a database without tables

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


_SITE = (
    "INSERT INTO engine_site (site_id, name, time_zone, sign_delay, locations, host_origins, "
    "settings, created_at) VALUES ('{0}', '{0}', 'UTC', 0, '[]', '[]', '{{}}', 1)"
)
_MEMBER = (
    "INSERT INTO engine_membership (site_id, account_id, role, created_at) "
    "VALUES ('{0}', 7, 'user', 1)"
)
_BEFORE = (
    _SITE.format("A"),
    _SITE.format("B"),
    (
        "INSERT INTO engine_account (id, email, name, signature, settings, created_at) "
        "VALUES (7, 'ada@a.test', 'Ada', 'data:', '{\"AppLanguage\"\\: \"ja-JP\"}', 1)"
    ),
    _MEMBER.format("A"),
    _MEMBER.format("B"),
)


def test_memberships_get_the_data_of_their_account(empty: Database) -> None:
    """Migration 0007 moves name, signature and settings from accounts to memberships."""
    upgrade(empty, PACKAGE, TABLE, "0006")
    with empty.write() as connection:
        for statement in _BEFORE:
            connection.execute(text(statement))
    upgrade(empty, PACKAGE, TABLE)

    with empty.read() as connection:
        rows = connection.execute(
            select(SiteMembership).order_by(col(SiteMembership.site_id))
        ).all()
    known = [(row.site_id, row.name, row.signature, row.settings, row.left_at) for row in rows]
    settings = {"AppLanguage": "ja-JP"}
    assert known == [(site, "Ada", "data:", settings, None) for site in ("A", "B")]


_SESSION_BEFORE = (
    _SITE.format("A"),
    (
        "INSERT INTO engine_account (id, email, second_factor_required, created_at) "
        "VALUES (7, 'ada@a.test', false, 1)"
    ),
    (
        "INSERT INTO engine_browser_session (pk, secret_hash, site_id, account_id, framed, "
        "details, created_at, last_seen_at, expires_at) "
        "VALUES (3, 'h', 'A', 7, false, '{}', 1, 1, 2)"
    ),
    (
        "INSERT INTO engine_window (session_pk, site_id, account_id, report_id, persistent, "
        "stream, seen_at) VALUES (3, 'A', 7, 'r', false, 's', 1)"
    ),
)


def test_sessions_and_their_windows_stay(empty: Database) -> None:
    """Migration 0016 permits sessions without a site, and keeps sessions and open windows."""
    upgrade(empty, PACKAGE, TABLE, "0015")
    with empty.write() as connection:
        for statement in _SESSION_BEFORE:
            connection.execute(text(statement))
    upgrade(empty, PACKAGE, TABLE)

    with empty.write() as connection:
        windows = "SELECT secret_hash, report_id FROM engine_window, engine_browser_session"
        found = connection.execute(text(f"{windows} WHERE pk = session_pk")).all()
        assert [tuple(row) for row in found] == [("h", "r")]
        connection.execute(text("UPDATE engine_browser_session SET site_id = NULL"))
