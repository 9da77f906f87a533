"""The definition with which a payload was composed before its claim; empty if composed after it."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("delivery_body", sa.Column("edition", sa.Text, nullable=False, server_default=""))


def downgrade() -> None:
    op.drop_column("delivery_body", "edition")
