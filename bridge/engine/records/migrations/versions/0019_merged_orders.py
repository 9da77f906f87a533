"""
What orders were before they were merged, so that an undone merge restores it.

Orders that were merged by an earlier version have nothing stored.
"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("engine_report_order", sa.Column("merged_from", sa.JSON, nullable=True))
