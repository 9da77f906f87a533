"""
Orders that are reported elsewhere.

The partial index holds these orders only: the worklist leaves their reports out.
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("engine_report_order", sa.Column("elsewhere_since", sa.BigInteger, nullable=True))
    op.add_column("engine_report_order", sa.Column("elsewhere", sa.JSON, nullable=True))
    present = sa.text("elsewhere_since IS NOT NULL")
    op.create_index(
        "ix_engine_report_order_elsewhere",
        "engine_report_order",
        ["report_pk"],
        sqlite_where=present,
        postgresql_where=present,
    )
