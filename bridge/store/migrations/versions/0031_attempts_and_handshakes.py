"""
Failed attempts and further replies of deliveries, failed TLS handshakes, and why a destination
gives no usable reply.
"""

import sqlalchemy as sa
from alembic import op

from bridge.store.columns import BIG_KEY

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "delivery_attempt",
        sa.Column("id", BIG_KEY, primary_key=True, autoincrement=True),
        sa.Column("delivery_id", sa.BigInteger, nullable=False),
        # 'attempt', or 'reply' for a reply to an earlier attempt.
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("code", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("retry_at", sa.BigInteger),
        # What the receiver sent, cut to a limit.
        sa.Column("reply", sa.LargeBinary, nullable=False),
    )
    op.create_index("delivery_attempt_delivery", "delivery_attempt", ["delivery_id", "id"])
    op.create_table(
        "handshake_failure",
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("node", sa.Text, primary_key=True),
        sa.Column("peer", sa.Text, primary_key=True),
        sa.Column("reason", sa.Text, primary_key=True),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("is_trouble", sa.SmallInteger, nullable=False),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.Column("first_at", sa.BigInteger, nullable=False),
        sa.Column("last_at", sa.BigInteger, nullable=False),
    )
    for name in ("problem_code", "problem"):
        op.add_column("channel", sa.Column(name, sa.Text, nullable=False, server_default=""))


def downgrade() -> None:
    for name in ("problem", "problem_code"):
        op.drop_column("channel", name)
    op.drop_table("handshake_failure")
    op.drop_table("delivery_attempt")
