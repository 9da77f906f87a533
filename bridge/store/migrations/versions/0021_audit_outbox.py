"""
The audit outbox, and the chain of installations with an external report engine.

An event is written into the outbox in the transaction of its change, and moves to the chain.
"""

import sqlalchemy as sa
from alembic import op

from bridge.store.columns import BIG_KEY

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_TEXTS = ("actor", "origin", "source", "node", "target_type", "target_id")


def upgrade() -> None:
    op.create_table(
        "audit_outbox",
        sa.Column("id", BIG_KEY, primary_key=True, autoincrement=True),
        sa.Column("event_id", sa.Text, nullable=False, unique=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        # The event's members in JSON.
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_table(
        "audit_event",
        sa.Column("sequence", BIG_KEY, primary_key=True, autoincrement=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("site_id", sa.Text),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("account_id", sa.BigInteger),
        sa.Column("token_id", sa.BigInteger),
        sa.Column("report_id", sa.Text),
        sa.Column("details", sa.JSON, nullable=False),
        sa.Column("previous_hash", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("version", sa.SmallInteger, nullable=False),
        *(sa.Column(name, sa.Text) for name in _TEXTS),
        sa.Column("before", sa.JSON),
        sa.Column("after", sa.JSON),
        sa.Column("event_id", sa.Text, unique=True),
    )


def downgrade() -> None:
    op.drop_table("audit_event")
    op.drop_table("audit_outbox")
