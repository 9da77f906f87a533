"""Releases and the change feed; links, browser sessions, audit trail, stored responses."""

import sqlalchemy as sa
from alembic import op

from bridge.store.columns import BIG_KEY

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _release()
    _change()
    _link()
    _browser_session()
    _audit_event()
    _idempotency()


def _release() -> None:
    op.create_table(
        "engine_release",
        sa.Column("pk", BIG_KEY, nullable=False),
        sa.Column("report_pk", BIG_KEY, nullable=False),
        sa.Column("addendum_pk", BIG_KEY, nullable=True),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("sequence", sa.Integer, nullable=False),
        sa.Column("due_at", sa.BigInteger, nullable=False),
        sa.Column("released_at", sa.BigInteger, nullable=True),
        sa.PrimaryKeyConstraint("pk", name="pk_engine_release"),
        sa.ForeignKeyConstraint(
            ["addendum_pk"],
            ["engine_addendum.pk"],
            name="fk_engine_release_addendum_pk",
            ondelete="SET NULL",
        ),
        sa.ForeignKeyConstraint(
            ["report_pk"],
            ["engine_report.pk"],
            name="fk_engine_release_report_pk",
            ondelete="CASCADE",
        ),
        sa.UniqueConstraint(
            "report_pk", "kind", "sequence", name="uq_engine_release_report_pk_kind_sequence"
        ),
    )
    op.create_index("ix_engine_release_addendum_pk", "engine_release", ["addendum_pk"])
    op.create_index("ix_engine_release_due", "engine_release", ["released_at", "due_at"])


def _change() -> None:
    op.create_table(
        "engine_change",
        sa.Column("cursor", BIG_KEY, nullable=False),
        sa.Column("site_id", sa.String, nullable=False),
        sa.Column("report_id", sa.String, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("event", sa.String, nullable=False),
        sa.Column("body", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("cursor", name="pk_engine_change"),
        sa.ForeignKeyConstraint(
            ["site_id"], ["engine_site.site_id"], name="fk_engine_change_site_id"
        ),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_engine_change_report_id", "engine_change", ["report_id"])
    op.create_index("ix_engine_change_site", "engine_change", ["site_id", "cursor"])


def _link() -> None:
    op.create_table(
        "engine_link",
        sa.Column("pk", BIG_KEY, nullable=False),
        sa.Column("handle_hash", sa.String, nullable=False),
        sa.Column("purpose", sa.String, nullable=False),
        sa.Column("site_id", sa.String, nullable=False),
        sa.Column("key_id", sa.String, nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.Column("target", sa.String, nullable=True),
        sa.Column("account_id", BIG_KEY, nullable=True),
        sa.Column("token_id", BIG_KEY, nullable=True),
        sa.Column("framed", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("opened_at", sa.BigInteger, nullable=True),
        sa.Column("revoked_at", sa.BigInteger, nullable=True),
        sa.PrimaryKeyConstraint("pk", name="pk_engine_link"),
        sa.ForeignKeyConstraint(
            ["account_id"], ["engine_account.id"], name="fk_engine_link_account_id"
        ),
        sa.ForeignKeyConstraint(
            ["site_id"], ["engine_site.site_id"], name="fk_engine_link_site_id"
        ),
        sa.ForeignKeyConstraint(
            ["token_id"], ["engine_access_token.id"], name="fk_engine_link_token_id"
        ),
        sa.UniqueConstraint("handle_hash", name="uq_engine_link_handle_hash"),
    )
    op.create_index("ix_engine_link_account_id", "engine_link", ["account_id"])
    op.create_index("ix_engine_link_expires_at", "engine_link", ["expires_at"])
    op.create_index("ix_engine_link_target", "engine_link", ["target"])
    op.create_index("ix_engine_link_token_id", "engine_link", ["token_id"])


def _browser_session() -> None:
    op.create_table(
        "engine_browser_session",
        sa.Column("pk", BIG_KEY, nullable=False),
        sa.Column("secret_hash", sa.String, nullable=False),
        sa.Column("site_id", sa.String, nullable=False),
        sa.Column("account_id", BIG_KEY, nullable=False),
        sa.Column("link_pk", BIG_KEY, nullable=True),
        sa.Column("framed", sa.Boolean, nullable=False),
        sa.Column("details", sa.JSON, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("last_seen_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("ended_at", sa.BigInteger, nullable=True),
        sa.PrimaryKeyConstraint("pk", name="pk_engine_browser_session"),
        sa.ForeignKeyConstraint(
            ["account_id"], ["engine_account.id"], name="fk_engine_browser_session_account_id"
        ),
        sa.ForeignKeyConstraint(
            ["link_pk"], ["engine_link.pk"], name="fk_engine_browser_session_link_pk"
        ),
        sa.ForeignKeyConstraint(
            ["site_id"], ["engine_site.site_id"], name="fk_engine_browser_session_site_id"
        ),
        sa.UniqueConstraint("secret_hash", name="uq_engine_browser_session_secret_hash"),
    )
    op.create_index(
        "ix_engine_browser_session_account_id", "engine_browser_session", ["account_id"]
    )
    op.create_index(
        "ix_engine_browser_session_expires_at", "engine_browser_session", ["expires_at"]
    )
    op.create_index("ix_engine_browser_session_link_pk", "engine_browser_session", ["link_pk"])


def _audit_event() -> None:
    op.create_table(
        "engine_audit_event",
        sa.Column("sequence", BIG_KEY, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("site_id", sa.String, nullable=True),
        sa.Column("action", sa.String, nullable=False),
        sa.Column("outcome", sa.String, nullable=False),
        sa.Column("account_id", BIG_KEY, nullable=True),
        sa.Column("token_id", BIG_KEY, nullable=True),
        sa.Column("report_id", sa.String, nullable=True),
        sa.Column("details", sa.JSON, nullable=False),
        sa.Column("previous_hash", sa.String, nullable=False),
        sa.Column("hash", sa.String, nullable=False),
        sa.PrimaryKeyConstraint("sequence", name="pk_engine_audit_event"),
        sa.ForeignKeyConstraint(
            ["account_id"], ["engine_account.id"], name="fk_engine_audit_event_account_id"
        ),
        sa.ForeignKeyConstraint(
            ["token_id"], ["engine_access_token.id"], name="fk_engine_audit_event_token_id"
        ),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_engine_audit_event_report_id", "engine_audit_event", ["report_id"])
    op.create_index("ix_engine_audit_event_site", "engine_audit_event", ["site_id", "sequence"])


def _idempotency() -> None:
    op.create_table(
        "engine_idempotency",
        sa.Column("key", sa.String, nullable=False),
        sa.Column("token_id", sa.Integer, nullable=False),
        sa.Column("route", sa.String, nullable=False),
        sa.Column("request_hash", sa.String, nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("response", sa.JSON, nullable=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("key", "token_id", "route", name="pk_engine_idempotency"),
    )
    op.create_index("ix_engine_idempotency_at", "engine_idempotency", ["at"])
