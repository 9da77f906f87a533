"""Migration 0007 moves name, signature and settings from accounts to memberships."""

from sqlalchemy import select, text
from sqlmodel import col

from bridge.engine.records.tables import SiteMembership
from bridge.store.database import Database
from bridge.store.migration import upgrade
from tests.bridge.store.test_migration import empty

__all__ = ["empty"]  # a database without any table

PACKAGE, TABLE = "bridge.engine.records", "alembic_engine"

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
    """Each membership gets name, signature and settings of its account."""
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
