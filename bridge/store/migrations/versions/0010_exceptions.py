"""Exceptions: processed messages and orders that need attention."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "concern",
        # The kind of row (message, order) and its id; no patient data.
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("row_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("code", sa.Text, primary_key=True),
        sa.Column("noted_at", sa.BigInteger, nullable=False),
        sa.Column("seen_at", sa.BigInteger),
    )


def downgrade() -> None:
    op.drop_table("concern")
