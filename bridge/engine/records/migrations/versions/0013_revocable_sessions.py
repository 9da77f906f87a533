"""
Links name the token in `userInfo.Auth`, and sessions the link that identified their user.

Revoking the token ends them. Rows from before have neither. There are no foreign keys, because
SQLite would have to copy both tables.
"""

import sqlalchemy as sa
from alembic import op

from bridge.store.columns import BIG_KEY

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_COLUMNS = {"engine_link": "authority_token_id", "engine_browser_session": "identity_link_pk"}


def upgrade() -> None:
    for table, name in _COLUMNS.items():
        op.add_column(table, sa.Column(name, BIG_KEY, nullable=True))
        op.create_index(f"ix_{table}_{name}", table, [name])
