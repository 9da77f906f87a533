"""The fingerprint of the key of patient hashes; the rows are keyed later."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "index_key",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("fingerprint", sa.Text, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("index_key")
