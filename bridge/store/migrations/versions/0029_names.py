"""
Tables and columns get the names that the code uses.

Old nodes fail on the new names: on PostgreSQL stop all nodes before this migration.
"""

from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

_TABLES = {
    "channel_trouble": "channel_start_failure",
    "concern": "exception",
    "message_enrolled": "lane_watermark",
    "moved_visit": "visit_transfer",
    "parcel": "payload_blob",
    "parcel_piece": "payload_chunk",
    "patient_word": "patient_demographics",
    "report_seen": "known_report",
    "sequence_link": "sequence_number",
}
_COLUMNS = {
    "alert": {"told_at": "notified_at", "returns": "recurrences"},
    "bridge_order": {
        "closed_at": "state_changed_at",
        "closed_by": "state_clock",
        "said_at": "tags_sent_at",
        "said_by": "tags_clock",
        "opened_by": "opened_clock",
    },
    "message": {"doubts": "ambiguous_attempts"},
    "moved_visit": {"said_at": "sent_at", "said_by": "clock"},
    "parcel": {"pieces": "chunks", "kept_at": "stored_at"},
    "patient_word": {"said_at": "sent_at", "said_by": "clock"},
    "reconcile_round": {"said": "body"},
}


def upgrade() -> None:
    for table, columns in _COLUMNS.items():
        for before, after in columns.items():
            op.execute(f"ALTER TABLE {table} RENAME COLUMN {before} TO {after}")
    for before, after in _TABLES.items():
        op.rename_table(before, after)


def downgrade() -> None:
    for before, after in _TABLES.items():
        op.rename_table(after, before)
    for table, columns in _COLUMNS.items():
        for before, after in columns.items():
            op.execute(f"ALTER TABLE {table} RENAME COLUMN {after} TO {before}")
