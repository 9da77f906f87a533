"""
The order index, and the reports that delivery knows.

The key is SiteID, PatientMRN and Accession, because results must find the order that they belong
to. Link signals are hashes.
"""

import sqlalchemy as sa
from alembic import op

from bridge.store.columns import BIG_KEY

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "bridge_order",
        sa.Column("id", BIG_KEY, primary_key=True, autoincrement=True),
        sa.Column("site", sa.Text, nullable=False),
        sa.Column("mrn", sa.Text, nullable=False),
        sa.Column("accession", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("placer", sa.Text, nullable=False),
        sa.Column("filler", sa.Text, nullable=False),
        sa.Column("tags", sa.Text, nullable=False),
        sa.Column("echo", sa.Text, nullable=False),
        sa.Column("report_id", sa.Text, nullable=False),
        sa.Column("first_message", sa.BigInteger, nullable=False),
        sa.Column("place", sa.Integer, nullable=False),
        sa.Column("last_message", sa.BigInteger, nullable=False),
        sa.Column("closed_at", sa.BigInteger),
        # In this order it also serves lookups by site and accession.
        sa.UniqueConstraint("site", "accession", "mrn", name="uq_bridge_order_key"),
    )
    # A merge moves all orders of a patient.
    op.create_index("ix_bridge_order_patient", "bridge_order", ["site", "mrn"])
    op.create_table(
        "order_signal",
        sa.Column("order_id", BIG_KEY, sa.ForeignKey("bridge_order.id"), primary_key=True),
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("signal", sa.BigInteger, primary_key=True),
    )
    # For orders with the same link signal.
    op.create_index("ix_order_signal_signal", "order_signal", ["signal"])
    op.create_table(
        "report_seen",
        sa.Column("site", sa.Text, primary_key=True),
        sa.Column("accession", sa.Text, primary_key=True),
        sa.Column("mrn", sa.Text, primary_key=True),
        sa.Column("report_id", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("final", sa.Integer, nullable=False),
        sa.Column("addenda", sa.Integer, nullable=False),
        sa.Column("changed_at", sa.BigInteger, nullable=False),
        sa.Column("check_at", sa.BigInteger, nullable=False),
    )
    # For the next status poll; recently active reports are polled most often.
    op.create_index("ix_report_seen_check", "report_seen", ["check_at"])
    op.create_table(
        "feed_cursor",
        sa.Column("feed", sa.Text, primary_key=True),
        sa.Column("cursor", sa.BigInteger, nullable=False),
    )


def downgrade() -> None:
    for table in ("feed_cursor", "report_seen", "order_signal", "bridge_order"):
        op.drop_table(table)
