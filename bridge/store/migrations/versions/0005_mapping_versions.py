"""
Versions of mapping definitions, their activations, and drafts.

A version is immutable. Sources are JSON: the text of each file by its name.
"""

import sqlalchemy as sa
from alembic import op

from bridge.store.columns import BIG_KEY

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "mapping_version",
        sa.Column("name", sa.Text, primary_key=True),
        # A hash of the sources.
        sa.Column("version", sa.Text, primary_key=True),
        sa.Column("sources", sa.Text, nullable=False),
        sa.Column("stored_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "mapping_activation",
        sa.Column("id", BIG_KEY, primary_key=True, autoincrement=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        # start, activate or rollback
        sa.Column("origin", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(
            ["name", "version"], ["mapping_version.name", "mapping_version.version"]
        ),
    )
    op.create_index("mapping_activation_name", "mapping_activation", ["name", "id"])
    op.create_table(
        "mapping_draft",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("sources", sa.Text, nullable=False),
        # Empty: not checked, or with errors.
        sa.Column("checked_version", sa.Text, nullable=False),
        sa.Column("saved_at", sa.BigInteger, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("mapping_draft")
    op.drop_index("mapping_activation_name")
    op.drop_table("mapping_activation")
    op.drop_table("mapping_version")
