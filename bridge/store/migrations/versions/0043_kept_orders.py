"""An undo of a merge that was interrupted leaves the orders with the survivor that were chosen."""

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("merge_undo", sa.Column("keep", sa.Text, nullable=False, server_default="[]"))


def downgrade() -> None:
    op.drop_column("merge_undo", "keep")
