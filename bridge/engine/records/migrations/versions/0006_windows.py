"""Open windows, the launch that they should follow, and the session of each change."""

import sqlalchemy as sa
from alembic import op

from bridge.store.columns import BIG_KEY

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("engine_change", sa.Column("session_pk", sa.BigInteger, nullable=True))
    _window()
    _sync_target()


def _window() -> None:
    op.create_table(
        "engine_window",
        sa.Column("session_pk", BIG_KEY, autoincrement=False, nullable=False),
        sa.Column("site_id", sa.String, nullable=False),
        sa.Column("account_id", BIG_KEY, nullable=False),
        sa.Column("report_id", sa.String, nullable=False),
        sa.Column("persistent", sa.Boolean, nullable=False),
        sa.Column("stream", sa.String, nullable=False),
        sa.Column("seen_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("session_pk", name="pk_engine_window"),
        sa.ForeignKeyConstraint(
            ["session_pk"],
            ["engine_browser_session.pk"],
            name="fk_engine_window_session_pk",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["site_id"], ["engine_site.site_id"], name="fk_engine_window_site_id"
        ),
        sa.ForeignKeyConstraint(
            ["account_id"], ["engine_account.id"], name="fk_engine_window_account_id"
        ),
    )
    op.create_index("ix_engine_window_report_id", "engine_window", ["report_id"])
    op.create_index("ix_engine_window_user", "engine_window", ["account_id", "site_id"])


def _sync_target() -> None:
    op.create_table(
        "engine_sync_target",
        sa.Column("site_id", sa.String, nullable=False),
        sa.Column("account_id", BIG_KEY, nullable=False),
        sa.Column("sequence", BIG_KEY, nullable=False),
        sa.Column("handle_hash", sa.String, nullable=False),
        sa.Column("report_id", sa.String, nullable=True),
        sa.Column("accession", sa.String, nullable=False),
        sa.Column("launched_at", sa.BigInteger, nullable=False),
        sa.Column("answer", sa.String(32), nullable=False),
        sa.Column("reason", sa.String, nullable=False),
        sa.PrimaryKeyConstraint("site_id", "account_id", name="pk_engine_sync_target"),
        sa.ForeignKeyConstraint(
            ["site_id"], ["engine_site.site_id"], name="fk_engine_sync_target_site_id"
        ),
        sa.ForeignKeyConstraint(
            ["account_id"], ["engine_account.id"], name="fk_engine_sync_target_account_id"
        ),
    )
