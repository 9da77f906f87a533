"""
The console's lists, background jobs, statistics, saved views, and the states of reports over time.

Messages and deliveries get indexes by channel, type and cause. `message_entry` says which tags the
orders of a message lack. The cursor `older` makes the nodes index all stored messages again in the
background, from the newest to the oldest, which fills it and adds names and senders to
`message_number`.
"""

import sqlalchemy as sa
from alembic import op

from bridge.store.columns import BIG_KEY

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None

_ATTENTION = "state IN ('parked', 'refused', 'cancelled')"
_INDEXES = (
    # name, table, columns, condition
    ("message_listener", "message", ["listener", "id"], None),
    ("message_type_listing", "message", ["message_type", "id"], None),
    ("message_causes", "message", ["state", "code", "listener", "id"], _ATTENTION),
    ("delivery_listing", "delivery", ["destination", "id"], None),
    ("delivery_control", "delivery", ["control_id", "id"], "control_id <> ''"),
    ("delivery_causes", "delivery", ["state", "code", "destination", "id"], _ATTENTION),
    ("delivery_sites", "delivery", ["sites_hash", "id"], None),
    ("bridge_order_report", "bridge_order", ["report_id"], "report_id <> ''"),
    ("known_report_report", "known_report", ["report_id"], None),
    ("exception_unseen", "exception", ["noted_at"], "seen_at IS NULL"),
    (
        "background_job_open",
        "background_job",
        ["state", "id"],
        "state IN ('waiting', 'running', 'stopping')",
    ),
    ("background_job_account", "background_job", ["account_id", "id"], None),
    ("saved_view_shared", "saved_view", ["shared"], "shared = 1"),
    ("channel_statistics_channel", "channel_statistics", ["kind", "name", "span", "at"], None),
    ("report_event_report", "report_event", ["report_id", "at"], None),
    ("delivery_edit_origin", "delivery_edit", ["origin_id"], None),
    ("mapping_example_name", "mapping_example", ["name", "id"], None),
)
_NEW_COLUMNS = (
    ("delivery", sa.Column("sites_hash", sa.BigInteger)),
    # The channel that an alert is about, and what to do about it.
    ("alert", sa.Column("kind", sa.Text, nullable=False, server_default="")),
    ("alert", sa.Column("name", sa.Text, nullable=False, server_default="")),
    ("alert", sa.Column("action", sa.Text, nullable=False, server_default="")),
    # The result of the shadow run with which a version was activated, as a JSON text.
    ("mapping_activation", sa.Column("evidence", sa.Text)),
)
_TABLES = (
    "background_job_part",
    "background_job_row",
    "background_job",
    "saved_view",
    "channel_statistics",
    "report_event",
    "delivery_edit",
    "mapping_example",
    "message_entry",
)
_PARTITIONS = sa.text("""
    SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits AS i
    JOIN pg_class AS c ON c.oid = i.inhrelid WHERE i.inhparent = 'message'::regclass
    ORDER BY c.relname
""")


def upgrade() -> None:
    for table, column in _NEW_COLUMNS:
        op.add_column(table, column)
    _create_message_entry()
    _create_jobs()
    _create_others()
    for name, table, columns, condition in _INDEXES:
        where = None if condition is None else sa.text(condition)
        op.create_index(name, table, columns, postgresql_where=where, sqlite_where=where)
    op.execute(
        "INSERT INTO message_number_cursor (name, message_id)"
        " SELECT 'older', message_id FROM message_number_cursor WHERE name = 'console'"
    )


def _create_message_entry() -> None:
    """On PostgreSQL with the partitions of `message`, which are dropped together."""
    partitioned = op.get_bind().dialect.name == "postgresql"
    op.create_table(
        "message_entry",
        sa.Column("message_id", BIG_KEY, primary_key=True, autoincrement=False),
        # Bit k: an order of the message has no value for the tag k.
        sa.Column("absent", sa.BigInteger, nullable=False),
        # The number of orders; 0: none, or not mapped.
        sa.Column("orders", sa.SmallInteger, nullable=False),
        postgresql_partition_by="RANGE (message_id)",
    )
    if not partitioned:
        return
    for name, bound in op.get_bind().execute(_PARTITIONS).all():
        part = f"message_entry_{name.removeprefix('message_')}"
        op.execute(f"CREATE TABLE {part} PARTITION OF message_entry {bound}")


def _create_jobs() -> None:
    op.create_table(
        "background_job",
        sa.Column("id", BIG_KEY, primary_key=True, autoincrement=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        # JSON texts; private filters are stored as keyed hashes.
        sa.Column("selection", sa.Text, nullable=False),
        sa.Column("options", sa.Text, nullable=False),
        # The newest row when the job was created; later rows are not included.
        sa.Column("upper_id", sa.BigInteger),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("account_id", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("expected", sa.BigInteger),
        sa.Column("handled", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("succeeded", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("failed", sa.BigInteger, nullable=False, server_default="0"),
        # The last row that was handled.
        sa.Column("cursor", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("result", sa.Text, nullable=False, server_default=""),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("started_at", sa.BigInteger),
        sa.Column("finished_at", sa.BigInteger),
        sa.Column("owner", sa.Text),
        sa.Column("lease_until", sa.BigInteger),
    )
    op.create_table(
        "background_job_row",
        sa.Column("job_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("row_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False, server_default=""),
    )
    op.create_table(
        "background_job_part",
        sa.Column("job_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )


def _create_others() -> None:
    op.create_table(
        "saved_view",
        sa.Column("id", BIG_KEY, primary_key=True, autoincrement=True),
        sa.Column("list_name", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("account_id", sa.Text, nullable=False),
        sa.Column("email", sa.Text, nullable=False),
        sa.Column("shared", sa.SmallInteger, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("changed_at", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("account_id", "list_name", "name", name="saved_view_name"),
    )
    op.create_table(
        "channel_statistics",
        # Minutes: 1, 15 or 60.
        sa.Column("span", sa.SmallInteger, primary_key=True, autoincrement=False),
        sa.Column("at", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        # The process that counted; '' for a sum.
        sa.Column("source", sa.Text, primary_key=True),
        sa.Column("counts", sa.Text, nullable=False),
        sa.Column("latency", sa.Text, nullable=False),
        sa.Column("waiting", sa.BigInteger),
        sa.Column("oldest", sa.BigInteger),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "report_event",
        sa.Column("id", BIG_KEY, primary_key=True, autoincrement=True),
        sa.Column("site", sa.Text, nullable=False),
        sa.Column("report_id", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("event", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("actor", sa.Text, nullable=False, server_default=""),
        sa.UniqueConstraint("site", "report_id", "at", "event", name="report_event_once"),
    )
    op.create_table(
        "delivery_edit",
        sa.Column("delivery_id", BIG_KEY, primary_key=True, autoincrement=False),
        sa.Column("origin_id", sa.BigInteger, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("email", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
    )
    op.create_table(
        "mapping_example",
        sa.Column("id", BIG_KEY, primary_key=True, autoincrement=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("listener", sa.Text, nullable=False),
        # A message without patient data.
        sa.Column("payload", sa.LargeBinary, nullable=False),
        sa.Column("expected", sa.Text, nullable=False),
        sa.Column("added_at", sa.BigInteger, nullable=False),
        sa.Column("added_by", sa.Text, nullable=False),
    )


def downgrade() -> None:
    op.execute("DELETE FROM message_number_cursor WHERE name = 'older'")
    for name, table, _, _ in reversed(_INDEXES):
        op.drop_index(name, table)
    for table in _TABLES:
        op.drop_table(table)
    for table, column in reversed(_NEW_COLUMNS):
        op.drop_column(table, column.name)
