"""
Sites of console users, site and reason of actions, and edited messages.

`sites` is a JSON list; empty if a person is not limited. The link between two messages contains row
ids, not the changes.
"""

import sqlalchemy as sa
from alembic import op

from bridge.store.columns import BIG_KEY

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("console_grant", sa.Column("sites", sa.Text, nullable=False, server_default=""))
    op.add_column("console_deed", sa.Column("site", sa.Text, nullable=False, server_default=""))
    op.add_column("console_deed", sa.Column("reason", sa.Text, nullable=False, server_default=""))
    # Messages are indexed by site from now on: all are indexed again.
    op.execute("DELETE FROM message_number_cursor")
    # The time until which an open circuit breaker sends nothing; null: closed.
    op.add_column("channel", sa.Column("open_until", sa.BigInteger))
    op.create_table(
        "message_edit",
        sa.Column("message_id", BIG_KEY, primary_key=True, autoincrement=False),
        sa.Column("origin_id", sa.BigInteger, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("email", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
    )
    # For the result of an edited message.
    op.create_index("message_edit_origin", "message_edit", ["origin_id"])


def downgrade() -> None:
    op.drop_table("message_edit")
    op.drop_column("channel", "open_until")
    op.drop_column("console_deed", "reason")
    op.drop_column("console_deed", "site")
    op.drop_column("console_grant", "sites")
