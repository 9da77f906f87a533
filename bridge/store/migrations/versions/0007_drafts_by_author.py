"""
Drafts of mappings belong to an author, and have the version that they are based on.

Existing drafts have no known base version.
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
        # The version that was active when the draft was created; empty: none.
        sa.Column("begun_on", sa.Text, nullable=False),
        # The number of saves, to detect concurrent changes.
        sa.Column("revision", sa.BigInteger, nullable=False),
        # Empty: not checked, or with errors.
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
    # Only the last of several authors' drafts is kept.
    op.execute(
        "INSERT INTO mapping_only_draft (name, sources, checked_version, saved_at, actor)"
        " SELECT name, sources, checked_version, saved_at, actor FROM mapping_draft a"
        " WHERE NOT EXISTS (SELECT 1 FROM mapping_draft b WHERE b.name = a.name"
        " AND (b.saved_at > a.saved_at OR (b.saved_at = a.saved_at AND b.actor > a.actor)))"
    )
    op.drop_table("mapping_draft")
    op.rename_table("mapping_only_draft", "mapping_draft")
