"""Name, signature and settings move from accounts to memberships; tokens for one site only."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_COPIED = ("name", "signature", "settings")
_ACCOUNT = sa.table("engine_account", sa.column("id"), *map(sa.column, _COPIED))
_MEMBERSHIP = sa.table("engine_membership", sa.column("account_id"), *map(sa.column, _COPIED))


def upgrade() -> None:
    for column in (
        sa.Column("name", sa.String, nullable=False, server_default=""),
        sa.Column("signature", sa.String, nullable=True),
        sa.Column("settings", sa.JSON, nullable=False, server_default="{}"),
        sa.Column("left_at", sa.BigInteger, nullable=True),
    ):
        op.add_column("engine_membership", column)
    for name in _COPIED:
        own = _ACCOUNT.c.id == _MEMBERSHIP.c.account_id
        known = sa.select(_ACCOUNT.c[name]).where(own).scalar_subquery()
        op.execute(_MEMBERSHIP.update().values({name: known}))
        op.drop_column("engine_account", name)
    op.add_column("engine_access_token", sa.Column("site_id", sa.String, nullable=True))
