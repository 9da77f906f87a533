"""
Digests of composed messages and of stored mapping versions, which reveal that bytes have changed.

Rows of earlier releases have none, and are not checked.
"""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("delivery_body", sa.Column("digest", sa.BigInteger))
    op.add_column("mapping_version", sa.Column("digest", sa.Text))


def downgrade() -> None:
    op.drop_column("mapping_version", "digest")
    op.drop_column("delivery_body", "digest")
