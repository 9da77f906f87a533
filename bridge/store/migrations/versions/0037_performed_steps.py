"""What modalities said of scheduled steps, and how far steps were computed again."""

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # The status that a modality gave the step; empty if none did.
    op.add_column(
        "scheduled_step", sa.Column("performed", sa.Text, nullable=False, server_default="")
    )
    op.create_table(
        "step_computation",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("version", sa.Text, nullable=False),
        # Orders below this row id are left; none if all are done.
        sa.Column("cursor", sa.BigInteger),
    )


def downgrade() -> None:
    op.drop_table("step_computation")
    op.drop_column("scheduled_step", "performed")
