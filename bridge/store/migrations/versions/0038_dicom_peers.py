"""What DICOM peers did last, and whom the DICOM port refused."""

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "dicom_peer",
        sa.Column("title", sa.Text, primary_key=True),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("associated_at", sa.BigInteger),
        sa.Column("request", sa.Text, nullable=False),
        sa.Column("requested_at", sa.BigInteger),
        sa.Column("answers", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "dicom_refusal",
        sa.Column("address", sa.Text, primary_key=True),
        sa.Column("title", sa.Text, primary_key=True),
        sa.Column("reason", sa.Text, primary_key=True),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.Column("first_at", sa.BigInteger, nullable=False),
        sa.Column("last_at", sa.BigInteger, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("dicom_refusal")
    op.drop_table("dicom_peer")
