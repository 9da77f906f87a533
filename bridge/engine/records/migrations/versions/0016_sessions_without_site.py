"""
A session may have no site: that of an account which is on none, and has a role in the console.

SQLite copies the table to change it, and deletes the windows of the sessions with the old one, so
they are kept beside it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_NAMES = ("session_pk", "site_id", "account_id", "report_id", "persistent", "stream", "seen_at")
_WINDOW = sa.table("engine_window", *map(sa.column, _NAMES))


def upgrade() -> None:
    connection = op.get_bind()
    windows = [dict(row) for row in connection.execute(sa.select(_WINDOW)).mappings()]
    with op.batch_alter_table("engine_browser_session") as table:
        table.alter_column("site_id", existing_type=sa.String, nullable=True)
    left = connection.execute(sa.select(_WINDOW.c.session_pk)).first()
    if windows and left is None:
        connection.execute(sa.insert(_WINDOW), windows)
