"""
What the console finds and shows: numbers by definition, loaded channels, refusals in a row.

Before, only the places of the standard were indexed, so that a message whose accession was mapped
from another field was not found by it. Deleting the cursor makes the nodes index every stored
message again in the background; what is indexed already stays.
"""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("DELETE FROM message_number_cursor WHERE name = 'console'")
    # When a node last said that it has loaded the channel (ms).
    op.add_column("channel", sa.Column("loaded_at", sa.BigInteger))
    # How many messages in a row a destination has refused.
    op.add_column("channel", sa.Column("refused", sa.Integer, nullable=False, server_default="0"))


def downgrade() -> None:
    """Keep the index: more numbers than before do no harm."""
    for column in ("loaded_at", "refused"):
        op.drop_column("channel", column)
