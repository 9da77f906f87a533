"""When merges of patients and their undos were sent: one that was sent earlier may arrive later."""

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("merged_patient", sa.Column("sent_at", sa.BigInteger))
    op.add_column("merged_patient", sa.Column("clock", sa.BigInteger))
    op.create_table(
        "separated_patient",
        sa.Column("site", sa.Text, primary_key=True),
        sa.Column("prior_mrn", sa.Text, primary_key=True),
        sa.Column("mrn", sa.Text, primary_key=True),
        sa.Column("sent_at", sa.BigInteger, nullable=False),
        sa.Column("clock", sa.BigInteger, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("separated_patient")
    op.drop_column("merged_patient", "clock")
    op.drop_column("merged_patient", "sent_at")
