"""
Message times of orders, and merged patients.

A message must not undo a later one that was processed before it. A message about a merged patient
applies to the survivor.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("bridge_order", sa.Column("said_at", sa.BigInteger))
    op.add_column("bridge_order", sa.Column("opened_at", sa.BigInteger))
    op.create_table(
        "merged_patient",
        sa.Column("site", sa.Text, primary_key=True),
        sa.Column("prior_mrn", sa.Text, primary_key=True),
        sa.Column("mrn", sa.Text, nullable=False),
    )
    # If a survivor is merged, the pointers to it are moved.
    op.create_index("ix_merged_patient_survivor", "merged_patient", ["site", "mrn"])


def downgrade() -> None:
    op.drop_table("merged_patient")
    for column in ("said_at", "opened_at"):
        op.drop_column("bridge_order", column)
