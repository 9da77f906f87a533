"""Macros of sites and users, and the keys with which pages encrypt unsaved text."""

import sqlalchemy as sa
from alembic import op

from bridge.store.columns import BIG_KEY

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "engine_macro",
        sa.Column("id", BIG_KEY, nullable=False),
        sa.Column("site_id", sa.String, nullable=False),
        sa.Column("account_id", BIG_KEY, nullable=True),
        sa.Column("trigger", sa.String, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("document", sa.JSON, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_engine_macro"),
        sa.ForeignKeyConstraint(
            ["site_id"], ["engine_site.site_id"], name="fk_engine_macro_site_id"
        ),
        sa.ForeignKeyConstraint(
            ["account_id"], ["engine_account.id"], name="fk_engine_macro_account_id"
        ),
        sa.UniqueConstraint(
            "site_id", "account_id", "trigger", name="uq_engine_macro_site_id_account_id_trigger"
        ),
    )
    op.create_table(
        "engine_journal_key",
        sa.Column("report_pk", BIG_KEY, nullable=False),
        sa.Column("account_id", BIG_KEY, nullable=False),
        sa.Column("secret", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("report_pk", "account_id", name="pk_engine_journal_key"),
        sa.ForeignKeyConstraint(
            ["report_pk"],
            ["engine_report.pk"],
            name="fk_engine_journal_key_report_pk",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["account_id"], ["engine_account.id"], name="fk_engine_journal_key_account_id"
        ),
    )
