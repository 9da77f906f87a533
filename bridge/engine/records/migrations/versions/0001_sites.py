"""Sites, accounts, memberships, tokens, prelim groups and templates."""

import sqlalchemy as sa
from alembic import op

from bridge.store.columns import BIG_KEY

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    _site()
    _account()
    _membership()
    _access_token()
    _prelim_group()
    _template()


def _site() -> None:
    op.create_table(
        "engine_site",
        sa.Column("site_id", sa.String, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("time_zone", sa.String, nullable=False),
        sa.Column("sign_delay", sa.Integer, nullable=False),
        sa.Column("locations", sa.JSON, nullable=False),
        sa.Column("host_origins", sa.JSON, nullable=False),
        sa.Column("settings", sa.JSON, nullable=False),
        sa.Column("header_img_type", sa.String, nullable=True),
        sa.Column("header_img", sa.String, nullable=True),
        sa.Column("footer_img", sa.String, nullable=True),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("site_id", name="pk_engine_site"),
    )


def _account() -> None:
    op.create_table(
        "engine_account",
        sa.Column("id", BIG_KEY, nullable=False),
        sa.Column("email", sa.String, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("password_hash", sa.String, nullable=True),
        sa.Column("signature", sa.String, nullable=True),
        sa.Column("settings", sa.JSON, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("disabled_at", sa.BigInteger, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_engine_account"),
        sa.UniqueConstraint("email", name="uq_engine_account_email"),
    )


def _membership() -> None:
    op.create_table(
        "engine_membership",
        sa.Column("site_id", sa.String, nullable=False),
        sa.Column("account_id", BIG_KEY, nullable=False),
        sa.Column("role", sa.String(32), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("site_id", "account_id", name="pk_engine_membership"),
        sa.ForeignKeyConstraint(
            ["account_id"], ["engine_account.id"], name="fk_engine_membership_account_id"
        ),
        sa.ForeignKeyConstraint(
            ["site_id"], ["engine_site.site_id"], name="fk_engine_membership_site_id"
        ),
    )


def _access_token() -> None:
    op.create_table(
        "engine_access_token",
        sa.Column("id", BIG_KEY, nullable=False),
        sa.Column("token_hash", sa.String, nullable=False),
        sa.Column("account_id", BIG_KEY, nullable=True),
        sa.Column("label", sa.String, nullable=False),
        sa.Column("service", sa.Boolean, nullable=False),
        sa.Column("scopes", sa.JSON, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=True),
        sa.Column("last_used_at", sa.BigInteger, nullable=True),
        sa.Column("revoked_at", sa.BigInteger, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_engine_access_token"),
        sa.ForeignKeyConstraint(
            ["account_id"], ["engine_account.id"], name="fk_engine_access_token_account_id"
        ),
        sa.UniqueConstraint("token_hash", name="uq_engine_access_token_token_hash"),
    )
    op.create_index("ix_engine_access_token_account_id", "engine_access_token", ["account_id"])


def _prelim_group() -> None:
    op.create_table(
        "engine_prelim_group",
        sa.Column("id", BIG_KEY, nullable=False),
        sa.Column("site_id", sa.String, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("tags", sa.JSON, nullable=False),
        sa.Column("members", sa.JSON, nullable=False),
        sa.Column("reviewers", sa.JSON, nullable=True),
        sa.Column("configured", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_engine_prelim_group"),
        sa.ForeignKeyConstraint(
            ["site_id"], ["engine_site.site_id"], name="fk_engine_prelim_group_site_id"
        ),
        sa.UniqueConstraint("site_id", "name", name="uq_engine_prelim_group_site_id_name"),
    )


def _template() -> None:
    op.create_table(
        "engine_template",
        sa.Column("id", BIG_KEY, nullable=False),
        sa.Column("site_id", sa.String, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("document", sa.JSON, nullable=False),
        sa.Column("settings", sa.JSON, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_engine_template"),
        sa.ForeignKeyConstraint(
            ["site_id"], ["engine_site.site_id"], name="fk_engine_template_site_id"
        ),
        sa.UniqueConstraint("site_id", "number", name="uq_engine_template_site_id_number"),
    )
