"""The scheduled procedure steps of orders, which the modality worklist shows."""

import sqlalchemy as sa
from alembic import op

from bridge.store.columns import BIG_KEY

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None

_INDEXES = (
    ("scheduled_step_day", ["day", "modality"]),
    ("scheduled_step_accession", ["accession"]),
    ("scheduled_step_mrn", ["mrn"]),
    ("scheduled_step_study", ["study_uid"]),
)


def upgrade() -> None:
    op.create_table(
        "scheduled_step",
        sa.Column("id", BIG_KEY, primary_key=True, autoincrement=True),
        sa.Column("site", sa.Text, nullable=False),
        sa.Column("accession", sa.Text, nullable=False),
        sa.Column("mrn", sa.Text, nullable=False),
        # Of several steps of one order, in the order of the message.
        sa.Column("position", sa.SmallInteger, nullable=False),
        sa.Column("step_id", sa.Text, nullable=False),
        sa.Column("study_uid", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("modality", sa.Text, nullable=False),
        # Each title with a bar before and after it: |CT1|CT2|
        sa.Column("stations", sa.Text, nullable=False),
        sa.Column("location", sa.Text, nullable=False),
        # The local start as 20261130 and 143000; none if the order has no time.
        sa.Column("day", sa.Integer),
        sa.Column("time", sa.Text, nullable=False),
        sa.Column("item", sa.Text, nullable=False),
        sa.Column("changed_at", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("site", "accession", "mrn", "position", name="scheduled_step_order"),
    )
    for name, columns in _INDEXES:
        op.create_index(name, "scheduled_step", columns)


def downgrade() -> None:
    op.drop_table("scheduled_step")
