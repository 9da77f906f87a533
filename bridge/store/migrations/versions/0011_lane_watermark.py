"""The id up to which all messages have entered their lanes; SQLite adds them when claiming."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table("message_enrolled", sa.Column("message_id", sa.BigInteger, nullable=False))
    op.execute("INSERT INTO message_enrolled SELECT coalesce(max(id), 0) FROM message")


def downgrade() -> None:
    op.execute(
        "INSERT INTO message_lane (lane, message_id)"
        " SELECT lane_1, id FROM message WHERE state = 'queued' AND lane_1 IS NOT NULL"
        " UNION ALL"
        " SELECT lane_2, id FROM message WHERE state = 'queued' AND lane_2 IS NOT NULL"
        " ON CONFLICT DO NOTHING"
    )
    op.drop_table("message_enrolled")
