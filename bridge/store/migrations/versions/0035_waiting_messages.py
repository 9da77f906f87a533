"""The messages that wait for an order, and what modalities have said of orders."""

import sqlalchemy as sa
from alembic import op

from bridge.store.columns import BIG_KEY

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
    op.create_table(
        "step_event",
        sa.Column("id", BIG_KEY, primary_key=True, autoincrement=True),
        sa.Column("message_id", sa.BigInteger, nullable=False),
        sa.Column("site", sa.Text, nullable=False),
        sa.Column("accession", sa.Text, nullable=False),
        sa.Column("mrn", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("message_id", "site", "accession", "mrn", name="step_event_once"),
    )
    op.create_index("ix_waiting_message_message_id", "waiting_message", ["message_id"])


def downgrade() -> None:
    op.drop_table("step_event")
    op.drop_table("waiting_message")
