"""A pointer of a merged patient says what its merge named, so that it can be undone."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("engine_patient_pointer", sa.Column("merged_into", sa.String, nullable=True))
