"""A pointer of a merged patient says what its merge named, so that it can be undone."""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("merged_patient", sa.Column("merged_into", sa.Text, nullable=True))
    op.add_column("merged_patient", sa.Column("merged_at", sa.BigInteger, nullable=True))
    op.add_column("merged_patient", sa.Column("identity", sa.Text, nullable=True))


def downgrade() -> None:
    for name in ("identity", "merged_at", "merged_into"):
        op.drop_column("merged_patient", name)
