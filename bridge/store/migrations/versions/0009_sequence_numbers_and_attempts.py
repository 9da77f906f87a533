"""
Counts that survive a restart: sequence numbers of senders, and failed attempts.

Attempts are stored only after a failure.
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "sequence_link",
        sa.Column("listener", sa.Text, primary_key=True),
        # A hash of MSH-3 and MSH-4.
        sa.Column("sender", sa.BigInteger, primary_key=True, autoincrement=False),
        # MSH-13 of the message accepted last; null: any number may follow.
        sa.Column("number", sa.BigInteger),
    )
    # Attempts to apply a message whose outcome is unknown.
    op.add_column("message", sa.Column("doubts", sa.Integer))
    # Attempts to send a delivery, and failures to compose it.
    op.add_column("delivery", sa.Column("tries", sa.Integer))


def downgrade() -> None:
    op.drop_column("delivery", "tries")
    op.drop_column("message", "doubts")
    op.drop_table("sequence_link")
