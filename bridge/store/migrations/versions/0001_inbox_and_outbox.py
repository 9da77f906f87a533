"""
The inbox and the outbox.

Mutable columns (state, attempts, leases) are in narrow rows. Payloads and acknowledgments are
written once, in separate tables. Index columns contain hashes, never patient data. There are no
foreign keys: all rows of a message are written and deleted together, and the check would cost each
acknowledgment an index lookup.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

from bridge.store.columns import BIG_KEY

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# Queue tables have many dead rows; by default autovacuum waits until a fifth of the rows is dead.
_EAGER_VACUUM: dict[str, Any] = {
    "postgresql_with": {
        "fillfactor": 80,
        "autovacuum_vacuum_scale_factor": 0.01,
        "autovacuum_vacuum_threshold": 2000,
    }
}


def upgrade() -> None:
    op.create_table("message", *_message(), *_work(), **_EAGER_VACUUM)
    op.create_table(
        "message_body",
        sa.Column("message_id", BIG_KEY, primary_key=True, autoincrement=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
        sa.Column("ack", sa.LargeBinary, nullable=False),
    )
    # Serves the ledger's look-up of retransmits, and prevents that two nodes both accept a copy as
    # new. Rejected: a unique index on the control id as text (28 % slower).
    op.create_index("message_identity", "message", ["identity", "digest", "edition"], unique=True)
    _line("message", "message_id", [])

    op.create_table("delivery", *_delivery(), *_work(), **_EAGER_VACUUM)
    op.create_table(
        "delivery_body",
        sa.Column("delivery_id", BIG_KEY, primary_key=True, autoincrement=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
    )
    # For Outbox.enqueue: a release is queued once for each destination.
    op.create_index("delivery_release", "delivery", ["destination", "release_key"], unique=True)
    # For the deliveries of a report.
    op.create_index("delivery_report", "delivery", ["report_id", "id"])
    _line("delivery", "delivery_id", ["destination"])


def _message() -> list[sa.Column[Any]]:
    return [
        sa.Column("id", BIG_KEY, primary_key=True, autoincrement=True),
        sa.Column("received_at", sa.BigInteger, nullable=False),
        sa.Column("listener", sa.Text, nullable=False),
        sa.Column("identity", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.BigInteger, nullable=False),
        # The number of copies that were refused before this one was accepted.
        sa.Column("edition", sa.Integer, nullable=False),
        sa.Column("message_type", sa.Text, nullable=False),
        sa.Column("mapping", sa.Text, nullable=False),
        sa.Column("mapping_version", sa.Text, nullable=False),
        sa.Column("lane_1", sa.BigInteger),
        sa.Column("lane_2", sa.BigInteger),
        sa.Column("flags", sa.Integer, nullable=False),
        sa.Column("ack_code", sa.Text, nullable=False),
        sa.Column("acknowledgment", sa.Text, nullable=False),
        sa.Column("retransmits", sa.Integer, nullable=False, server_default="0"),
        sa.Column("error_code", sa.Text, nullable=False),
        sa.Column("error_place", sa.Text, nullable=False),
        sa.Column("notes", sa.Text, nullable=False, server_default=""),
    ]


def _delivery() -> list[sa.Column[Any]]:
    return [
        sa.Column("id", BIG_KEY, primary_key=True, autoincrement=True),
        sa.Column("destination", sa.Text, nullable=False),
        sa.Column("lane", sa.BigInteger, nullable=False),
        sa.Column("report_id", sa.Text, nullable=False),
        sa.Column("release_key", sa.Text, nullable=False),
        sa.Column("event", sa.Text, nullable=False),
        sa.Column("orders", sa.Text, nullable=False),
        sa.Column("control_id", sa.Text, nullable=False, server_default=""),
        sa.Column("reply", sa.LargeBinary),
        sa.Column("release_at", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("sent_at", sa.BigInteger),
        sa.Column("acknowledged_at", sa.BigInteger),
    ]


def _work() -> list[sa.Column[Any]]:
    """Return the columns of the work in both queues, which `bridge.queue.lanes` reads."""
    return [
        sa.Column("state", sa.Text, nullable=False),
        # 1: the row waits for an earlier row of its lane, and cannot be claimed before that one is
        # done.
        sa.Column("blocked", sa.SmallInteger, nullable=False, server_default="0"),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("not_before", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("owner", sa.Text),
        sa.Column("lease_until", sa.BigInteger),
        sa.Column("failure", sa.Text, nullable=False, server_default=""),
        sa.Column("code", sa.Text, nullable=False, server_default=""),
        sa.Column("detail", sa.Text, nullable=False, server_default=""),
        sa.Column("settled_at", sa.BigInteger),
    ]


def _line(table: str, key: str, channel: list[str]) -> None:
    """Create the lanes of a queue, and the indexes that keep the cost of a claim constant."""
    op.create_table(
        f"{table}_lane",
        sa.Column("lane", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column(key, sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("claimed", sa.SmallInteger, nullable=False, server_default="0"),
        sqlite_with_rowid=False,
    )
    # Prevents that two rows of one lane are claimed at the same time.
    op.create_index(
        f"{table}_lane_claimed", f"{table}_lane", ["lane"], unique=True, **_where("claimed = 1")
    )
    # For the candidates of a claim: due rows, retries before new ones. Postponed and blocked
    # rows are outside of the range that is scanned.
    op.create_index(
        f"{table}_candidates",
        table,
        [*channel, "blocked", sa.text("not_before DESC"), "id"],
        **_where("state = 'queued'"),
    )
    # For expired claims.
    op.create_index(f"{table}_leases", table, ["lease_until"], **_where("state = 'claimed'"))
    # For operators: the few rows that need attention. Finished rows are found by id.
    op.create_index(
        f"{table}_attention",
        table,
        ["state", "id"],
        **_where("state IN ('parked', 'refused', 'cancelled')"),
    )


def _where(condition: str) -> dict[str, Any]:
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}
