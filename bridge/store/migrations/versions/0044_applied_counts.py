"""How often messages of each site were settled: open pages ask again when this changes."""

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0043"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "applied_count",
        sa.Column("slot", sa.Integer, primary_key=True),
        sa.Column("site", sa.Integer, primary_key=True),
        sa.Column("count", sa.BigInteger, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("applied_count")
