"""Visits that moved to another patient or number: late orders may name the former one."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "moved_visit",
        sa.Column("site", sa.Text, primary_key=True),
        sa.Column("prior_mrn", sa.Text, primary_key=True),
        sa.Column("visit_key", sa.Text, primary_key=True),
        sa.Column("prior_number", sa.Text, primary_key=True),
        sa.Column("mrn", sa.Text, nullable=False),
        sa.Column("number", sa.Text, nullable=False),
        sa.Column("said_at", sa.BigInteger, nullable=False),
        sa.Column("tags", sa.Text, nullable=False),
        sa.Column("echo", sa.Text, nullable=False),
    )
    op.create_index("ix_moved_visit_to", "moved_visit", ["site", "mrn"])


def downgrade() -> None:
    op.drop_table("moved_visit")
