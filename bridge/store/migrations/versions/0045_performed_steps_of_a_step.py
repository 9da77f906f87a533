"""What each performed step said is kept: the status of a step follows from all of them."""

import sqlalchemy as sa
from alembic import op

revision = "0045"
down_revision = "0044"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "scheduled_step", sa.Column("performed_steps", sa.Text, nullable=False, server_default="{}")
    )


def downgrade() -> None:
    op.drop_column("scheduled_step", "performed_steps")
