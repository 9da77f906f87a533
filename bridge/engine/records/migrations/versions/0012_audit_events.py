"""
Audit events get actor, origin, source, target, and the members before and after.

Existing rows have version 1 and none of the new members, so that their hashes stay valid. An event
has no foreign keys to accounts and tokens, because it outlives them. Refusals of anonymous callers
are counted outside of the chain.
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_NAMES = ("actor", "origin", "source", "node", "target_type", "target_id")


def upgrade() -> None:
    # SQLite cannot drop a foreign key, so the table is copied.
    with op.batch_alter_table(
        "engine_audit_event", table_kwargs={"sqlite_autoincrement": True}
    ) as table:
        table.drop_constraint("fk_engine_audit_event_account_id", type_="foreignkey")
        table.drop_constraint("fk_engine_audit_event_token_id", type_="foreignkey")
        table.add_column(sa.Column("version", sa.SmallInteger, nullable=False, server_default="1"))
        for name in _NAMES:
            table.add_column(sa.Column(name, sa.String, nullable=True))
        table.add_column(sa.Column("before", sa.JSON, nullable=True))
        table.add_column(sa.Column("after", sa.JSON, nullable=True))
        table.add_column(sa.Column("event_id", sa.String, nullable=True))
        table.create_unique_constraint("uq_engine_audit_event_event_id", ["event_id"])
    op.create_index("ix_engine_audit_event_origin", "engine_audit_event", ["origin"])
    op.create_table(
        "engine_audit_anonymous",
        sa.Column("minute", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("action", sa.String, nullable=False),
        sa.Column("code", sa.String, nullable=False),
        sa.Column("source", sa.String, nullable=False),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint(
            "minute", "action", "code", "source", name="pk_engine_audit_anonymous"
        ),
    )
