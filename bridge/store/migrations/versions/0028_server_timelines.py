"""
Timelines of the PostgreSQL server, and when a process first saw each one (ms).

The first one has the time 0: no failover has lost anything since this migration.
"""

from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            "CREATE TABLE server_timeline (timeline text PRIMARY KEY, seen_at bigint NOT NULL)"
        )


def downgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP TABLE server_timeline")
