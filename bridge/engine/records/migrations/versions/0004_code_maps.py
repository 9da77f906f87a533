"""Billing code maps of sites."""

import sqlalchemy as sa
from alembic import op

from bridge.store.columns import BIG_KEY

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "engine_code_map",
        sa.Column("id", BIG_KEY, nullable=False),
        sa.Column("site_id", sa.String, nullable=False),
        sa.Column("system", sa.String(32), nullable=False),
        sa.Column("match", sa.String, nullable=False),
        sa.Column("code", sa.String, nullable=False),
        sa.Column("description", sa.String, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_engine_code_map"),
        sa.ForeignKeyConstraint(
            ["site_id"], ["engine_site.site_id"], name="fk_engine_code_map_site_id"
        ),
    )
    op.create_index("ix_engine_code_map_site_id", "engine_code_map", ["site_id"])
