"""Requests for storage commitment, and what the PACS answered."""

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "storage_commitment",
        sa.Column("transaction_uid", sa.Text, primary_key=True),
        sa.Column("delivery_id", sa.BigInteger, nullable=False),
        sa.Column("destination", sa.Text, nullable=False),
        # SOP Instance UIDs, separated by blanks.
        sa.Column("instances", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("requested_at", sa.BigInteger, nullable=False),
        sa.Column("answered_at", sa.BigInteger),
    )
    op.create_index("storage_commitment_delivery", "storage_commitment", ["delivery_id"])
    op.create_index(
        "storage_commitment_state",
        "storage_commitment",
        ["destination", "state", "requested_at"],
    )


def downgrade() -> None:
    op.drop_table("storage_commitment")
