"""
The moment at which a page opened an order in which nothing has been written yet.

Drafts from before count as touched. The partial index holds the few open ones only.
"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("engine_report", sa.Column("untouched_since", sa.BigInteger, nullable=True))
    present = sa.text("untouched_since IS NOT NULL")
    op.create_index(
        "ix_engine_report_untouched",
        "engine_report",
        ["untouched_since"],
        sqlite_where=present,
        postgresql_where=present,
    )
