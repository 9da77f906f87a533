"""
Drafts of mappings are each author's own, and know what they were begun on.

A draft that was there has no known beginning: it counts as begun on nothing.
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "mapping_desk",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("actor", sa.Text, primary_key=True),
        sa.Column("sources", sa.Text, nullable=False),
        # The version that was in force when it was begun; empty: none was.
        sa.Column("begun_on", sa.Text, nullable=False),
        # Counts what was saved: who saves over an older one is told.
        sa.Column("revision", sa.BigInteger, nullable=False),
        # Empty: nobody has checked it, or it has mistakes.
        sa.Column("checked_version", sa.Text, nullable=False),
        sa.Column("saved_at", sa.BigInteger, nullable=False),
    )
    op.execute(
        "INSERT INTO mapping_desk"
        " (name, actor, sources, begun_on, revision, checked_version, saved_at)"
        " SELECT name, actor, sources, '', 1, checked_version, saved_at FROM mapping_draft"
    )
    op.drop_table("mapping_draft")
    op.rename_table("mapping_desk", "mapping_draft")


def downgrade() -> None:
    op.create_table(
        "mapping_only_draft",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("sources", sa.Text, nullable=False),
        sa.Column("checked_version", sa.Text, nullable=False),
        sa.Column("saved_at", sa.BigInteger, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
    )
    # Of several authors' drafts there is room for the last.
    op.execute(
        "INSERT INTO mapping_only_draft (name, sources, checked_version, saved_at, actor)"
        " SELECT name, sources, checked_version, saved_at, actor FROM mapping_draft a"
        " WHERE NOT EXISTS (SELECT 1 FROM mapping_draft b WHERE b.name = a.name"
        " AND (b.saved_at > a.saved_at OR (b.saved_at = a.saved_at AND b.actor > a.actor)))"
    )
    op.drop_table("mapping_draft")
    op.rename_table("mapping_only_draft", "mapping_draft")
