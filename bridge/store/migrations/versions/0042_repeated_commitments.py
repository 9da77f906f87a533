"""Requests for storage commitment are repeated: how often a PACS was asked."""

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "storage_commitment",
        sa.Column("requests", sa.Integer, nullable=False, server_default="1"),
    )


def downgrade() -> None:
    op.drop_column("storage_commitment", "requests")
