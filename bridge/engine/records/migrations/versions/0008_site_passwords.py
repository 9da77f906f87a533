"""A password that a site's administrator set is valid for that site only."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("engine_account", sa.Column("password_site_id", sa.String, nullable=True))
