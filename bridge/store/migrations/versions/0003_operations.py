"""Paused listeners and destinations, and active alerts. No patient data."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "channel",
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        # Null: not paused.
        sa.Column("paused_at", sa.BigInteger),
        sa.Column("paused_by", sa.Text, nullable=False, server_default=""),
        # When the last message arrived or was delivered.
        sa.Column("active_at", sa.BigInteger, nullable=False, server_default="0"),
    )
    op.create_table(
        "alert",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("severity", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("raised_at", sa.BigInteger, nullable=False),
        sa.Column("seen_at", sa.BigInteger, nullable=False),
        # Null: not notified yet.
        sa.Column("told_at", sa.BigInteger),
        # Null: active.
        sa.Column("cleared_at", sa.BigInteger),
    )


def downgrade() -> None:
    for table in ("alert", "channel"):
        op.drop_table(table)
