"""Who has seen an exception, and codes that their code table does not contain."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("concern", sa.Column("seen_by", sa.Text, nullable=False, server_default=""))
    op.create_table(
        "unknown_code",
        sa.Column("mapping", sa.Text, primary_key=True),
        sa.Column("code_table", sa.Text, primary_key=True),
        # Empty if the field may contain patient data.
        sa.Column("code", sa.Text, primary_key=True),
        sa.Column("place", sa.Text, nullable=False),
        sa.Column("policy", sa.Text, nullable=False),
        # 1 if it was looked up as a value, from right to left.
        sa.Column("back", sa.Integer, nullable=False),
        # The version that met it last; codes of inactive versions are not listed.
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.Column("first_at", sa.BigInteger, nullable=False),
        sa.Column("last_at", sa.BigInteger, nullable=False),
        sa.Column("seen_at", sa.BigInteger),
        sa.Column("seen_by", sa.Text, nullable=False, server_default=""),
    )


def downgrade() -> None:
    op.drop_table("unknown_code")
    op.drop_column("concern", "seen_by")
