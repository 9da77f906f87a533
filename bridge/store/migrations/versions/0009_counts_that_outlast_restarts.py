"""
Counts that a restart must not forget: sequence numbers of senders, and attempts that failed.

Attempts are written where one has failed only; what succeeds at once bears no count.
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
    # Attempts at applying a message whose outcome nobody knows.
    op.add_column("message", sa.Column("doubts", sa.Integer))
    # Times that a delivery was really sent, or could not be composed.
    op.add_column("delivery", sa.Column("tries", sa.Integer))


def downgrade() -> None:
    op.drop_column("delivery", "tries")
    op.drop_column("message", "doubts")
    op.drop_table("sequence_link")
