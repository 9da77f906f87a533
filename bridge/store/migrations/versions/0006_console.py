"""
Roles of the console, its actions, and an index of the numbers in messages.

The numbers are hashes. The record of actions contains row ids and codes, no patient data.
"""

import sqlalchemy as sa
from alembic import op

from bridge.store.columns import BIG_KEY

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "console_grant",
        sa.Column("email", sa.Text, primary_key=True),
        sa.Column("role", sa.Text, nullable=False),
        # 1: may read message contents.
        sa.Column("bodies", sa.SmallInteger, nullable=False),
        sa.Column("granted_at", sa.BigInteger, nullable=False),
        sa.Column("granted_by", sa.Text, nullable=False),
    )
    op.create_table(
        "console_deed",
        sa.Column("id", BIG_KEY, primary_key=True, autoincrement=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("email", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
    )
    op.create_table(
        "message_number",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("message_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sqlite_with_rowid=False,
    )
    # Deleted together with the message.
    op.create_index("message_number_message", "message_number", ["message_id"])
    op.create_table(
        "message_number_cursor",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("message_id", sa.BigInteger, nullable=False),
    )


def downgrade() -> None:
    for table in ("message_number_cursor", "message_number", "console_deed", "console_grant"):
        op.drop_table(table)
