"""
The clock of each stored message time: its sending application and facility, hashed.

Times that were stored before have no clock and are no longer compared. This also ends the effect of
times in the future, which made later cancellations and corrections ineffective.
"""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

_ORDER_CLOCKS = ("closed_by", "said_by", "opened_by")


def upgrade() -> None:
    for name in _ORDER_CLOCKS:
        op.add_column("bridge_order", sa.Column(name, sa.BigInteger))
    for table in ("patient_word", "moved_visit"):
        clock = sa.Column("said_by", sa.BigInteger, nullable=False, server_default="0")
        op.add_column(table, clock)


def downgrade() -> None:
    for table in ("patient_word", "moved_visit"):
        op.drop_column(table, "said_by")
    for name in _ORDER_CLOCKS:
        op.drop_column("bridge_order", name)
