"""The latest demographics of each patient: late orders must not overwrite them."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "patient_word",
        sa.Column("site", sa.Text, primary_key=True),
        sa.Column("mrn", sa.Text, primary_key=True),
        sa.Column("said_at", sa.BigInteger, nullable=False),
        sa.Column("tags", sa.Text, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("patient_word")
