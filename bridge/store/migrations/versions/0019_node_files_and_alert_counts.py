"""
The files and disk of each node, how often an alert has recurred, and the state of the reconcile
job.
"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "node_files",
        sa.Column("node", sa.Text, primary_key=True),
        sa.Column("host", sa.Text, nullable=False),
        # JSON, as bridge/monitoring/node_files.py writes it.
        sa.Column("files", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "reconcile_round",
        sa.Column("name", sa.Text, primary_key=True),
        # JSON, as bridge/store/records/reconcile_rounds.py writes it.
        sa.Column("said", sa.Text, nullable=False),
    )
    op.add_column("alert", sa.Column("returns", sa.Integer, nullable=False, server_default="0"))


def downgrade() -> None:
    op.drop_column("alert", "returns")
    op.drop_table("reconcile_round")
    op.drop_table("node_files")
