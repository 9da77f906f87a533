"""Payloads of large messages in chunks: writing one at once would block other writers."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "parcel",
        # The same as those of the message, and of its retransmits.
        sa.Column("identity", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("digest", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("pieces", sa.Integer, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("kept_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "parcel_piece",
        sa.Column("identity", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("digest", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("parcel_piece")
    op.drop_table("parcel")
