"""
Grants of the console belong to account ids, no longer to e-mail addresses.

An older grant has no account id, and permits nothing, until `resolve_grants` of
`bridge.admin.access.access_administration` resolves its address. `suspended` is 1
while the account is disabled.
"""

import sqlalchemy as sa
from alembic import op

from bridge.store.columns import BIG_KEY

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.rename_table("console_grant", "console_grant_by_email")
    op.create_table(
        "console_grant",
        sa.Column("id", BIG_KEY, primary_key=True, autoincrement=True),
        sa.Column("account_id", sa.Text, unique=True),
        # The address when the role was given: for display.
        sa.Column("email", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("bodies", sa.SmallInteger, nullable=False),
        sa.Column("sites", sa.Text, nullable=False, server_default=""),
        sa.Column("granted_at", sa.BigInteger, nullable=False),
        sa.Column("granted_by", sa.Text, nullable=False),
        sa.Column("suspended", sa.SmallInteger, nullable=False, server_default="0"),
    )
    op.execute("""
        INSERT INTO console_grant (email, role, bodies, sites, granted_at, granted_by)
        SELECT email, role, bodies, sites, granted_at, granted_by FROM console_grant_by_email
    """)
    op.drop_table("console_grant_by_email")


def downgrade() -> None:
    op.create_table(
        "console_grant_by_email",
        sa.Column("email", sa.Text, primary_key=True),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("bodies", sa.SmallInteger, nullable=False),
        sa.Column("sites", sa.Text, nullable=False, server_default=""),
        sa.Column("granted_at", sa.BigInteger, nullable=False),
        sa.Column("granted_by", sa.Text, nullable=False),
    )
    op.execute("""
        INSERT INTO console_grant_by_email (email, role, bodies, sites, granted_at, granted_by)
        SELECT email, role, bodies, sites, granted_at, granted_by FROM console_grant AS given
        WHERE suspended = 0 AND NOT EXISTS (
            SELECT 1 FROM console_grant AS later
            WHERE later.email = given.email AND later.id > given.id AND later.suspended = 0
        )
    """)
    op.drop_table("console_grant")
    op.rename_table("console_grant_by_email", "console_grant")
