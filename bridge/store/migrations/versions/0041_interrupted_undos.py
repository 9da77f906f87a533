"""An undo of a merge that was interrupted is completed as the operator wanted it."""

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "merge_undo",
        sa.Column("include_signed", sa.Integer, nullable=False, server_default="0"),
    )


def downgrade() -> None:
    op.drop_column("merge_undo", "include_signed")
