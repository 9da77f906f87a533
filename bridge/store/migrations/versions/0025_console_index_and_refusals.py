"""
Numbers of the console's index by definition, loaded channels, and consecutive refusals.

Earlier releases indexed the standard's fields only. A message whose accession is mapped from
another field could not be found by it. Deleting the cursor makes the nodes index all stored
messages again in the background; existing entries stay.
"""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("DELETE FROM message_number_cursor WHERE name = 'console'")
    # When a node last reported that it has loaded the channel (ms).
    op.add_column("channel", sa.Column("loaded_at", sa.BigInteger))
    # The number of consecutive messages that a destination has refused.
    op.add_column("channel", sa.Column("refused", sa.Integer, nullable=False, server_default="0"))


def downgrade() -> None:
    """Keep the index: more numbers than before do no harm."""
    for column in ("loaded_at", "refused"):
        op.drop_column("channel", column)
