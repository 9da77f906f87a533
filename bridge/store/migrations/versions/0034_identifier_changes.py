"""
The history of merged patient numbers.

A merge stores what it moves, so that undoing it restores the state before. Merges of earlier
versions have an entry without the orders: those stay with the survivor when the merge is undone.
"""

import sqlalchemy as sa
from alembic import op

from bridge.store.columns import BIG_KEY

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "identifier_change",
        sa.Column("id", BIG_KEY, primary_key=True, autoincrement=True),
        sa.Column("site", sa.Text, nullable=False),
        sa.Column("prior_mrn", sa.Text, nullable=False),
        sa.Column("mrn", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("message_id", sa.BigInteger, nullable=True),
        sa.Column("undone_at", sa.BigInteger, nullable=True),
        sa.Column("undone_by_message", sa.BigInteger, nullable=True),
        sqlite_autoincrement=True,
    )
    op.create_index("identifier_change_prior", "identifier_change", ["site", "prior_mrn", "id"])
    op.create_table(
        "identifier_change_item",
        sa.Column("id", BIG_KEY, primary_key=True, autoincrement=True),
        sa.Column("change_id", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("before", sa.Text, nullable=False),
    )
    op.create_index("identifier_change_item_change", "identifier_change_item", ["change_id"])
    op.create_table(
        "merge_undo",
        sa.Column("site", sa.Text, primary_key=True),
        sa.Column("prior_mrn", sa.Text, primary_key=True),
        sa.Column("begun_at", sa.BigInteger, nullable=False),
    )
    op.execute(
        "INSERT INTO identifier_change (site, prior_mrn, mrn, at)"
        " SELECT site, prior_mrn, mrn, coalesce(merged_at, 0) FROM merged_patient"
    )


def downgrade() -> None:
    op.drop_table("merge_undo")
    op.drop_table("identifier_change_item")
    op.drop_table("identifier_change")
