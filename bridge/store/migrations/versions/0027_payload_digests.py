"""The digest of a composed message, which reveals that stored bytes have changed; NULL: unknown."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("delivery_body", sa.Column("digest", sa.BigInteger))


def downgrade() -> None:
    op.drop_column("delivery_body", "digest")
