"""
Cursors of the change feed with the report engine's mark, and when a feed was replaced.

`cursor` stays the number of the change, so that an older release can continue from it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("feed_cursor", sa.Column("marked", sa.BigInteger))
    op.add_column("feed_cursor", sa.Column("replaced_at", sa.BigInteger))


def downgrade() -> None:
    for name in ("replaced_at", "marked"):
        op.drop_column("feed_cursor", name)
