"""The messages that wait for an order, such as an object that arrived before it."""

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "waiting_message",
        # The keyed hash of an accession number or study.
        sa.Column("key", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("message_id", sa.BigInteger, primary_key=True, autoincrement=False),
    )
    op.create_index("ix_waiting_message_message_id", "waiting_message", ["message_id"])


def downgrade() -> None:
    op.drop_table("waiting_message")
