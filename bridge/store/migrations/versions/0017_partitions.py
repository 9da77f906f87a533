"""
Partitions of messages by id on PostgreSQL, and a table of message identities.

The existing rows become the first partition: they are read once to validate the bounds, and their
identities are copied. Nothing else is rewritten.
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

_SIZE = 1_000_000
_LAST = sa.text("SELECT last_value FROM message_ids")

_IDENTITIES = (
    """
    CREATE TABLE message_identity (
        identity bigint NOT NULL, digest bigint NOT NULL, edition integer NOT NULL,
        message_id bigint NOT NULL, ack_code text NOT NULL
    ) WITH (autovacuum_vacuum_scale_factor = 0.02)
    """,
    """
    INSERT INTO message_identity (identity, digest, edition, message_id, ack_code)
    SELECT identity, digest, edition, id, ack_code FROM message
    """,
    # One table for all partitions: its unique index prevents that two copies are both new.
    "ALTER TABLE message_identity ADD PRIMARY KEY (identity, digest, edition)",
)
_INDEXES = {
    "message": (
        "ALTER SEQUENCE message_ids OWNED BY message.id",
        """
        CREATE INDEX message_candidates ON message (blocked, not_before DESC, id)
        WHERE state = 'queued'
        """,
        "CREATE INDEX message_leases ON message (lease_until) WHERE state = 'claimed'",
        """
        CREATE INDEX message_attention ON message (state, id)
        WHERE state IN ('parked', 'refused', 'cancelled')
        """,
    ),
    "message_body": (),
    "message_number": ("CREATE INDEX message_number_message ON message_number (message_id)",),
}
_NAMED = ("message_candidates", "message_leases", "message_attention", "message_number_message")
_EAGER_VACUUM = (
    "WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01,"
    " autovacuum_vacuum_threshold = 2000)"
)
_TABLES = (
    # partition key, primary key, storage parameters
    ("message", "id", "id", _EAGER_VACUUM),
    ("message_body", "message_id", "message_id", ""),
    ("message_number", "message_id", "number, message_id", ""),
)


def upgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        return
    op.execute("DROP INDEX message_identity")  # locks out all other readers and writers of messages
    # A node of an older release does not store identities, so its messages would be accepted twice.
    # Without this index its inserts fail.
    op.execute("ALTER SEQUENCE message_id_seq RENAME TO message_ids")
    for statement in _IDENTITIES:
        op.execute(statement)
    for name in _NAMED:
        op.execute(f"ALTER INDEX {name} RENAME TO {name}_from_0")
    last = op.get_bind().execute(_LAST).scalar_one()
    for table, by, key, storage in _TABLES:
        op.execute(f"ALTER TABLE {table} RENAME TO {table}_from_0")
        op.execute(f"ALTER INDEX {table}_pkey RENAME TO {table}_from_0_pkey")
        op.execute(
            f"CREATE TABLE {table} (LIKE {table}_from_0 INCLUDING DEFAULTS)"
            f" PARTITION BY RANGE ({by})"
        )
        op.execute(f"ALTER TABLE {table} ADD CONSTRAINT {table}_pkey PRIMARY KEY ({key})")
        for statement in _INDEXES[table]:
            op.execute(statement)
        # The default partition: ids without a partition, and messages that outlive theirs.
        op.execute(f"CREATE TABLE {table}_rest (LIKE {table} INCLUDING DEFAULTS) {storage}")
        op.execute(
            f"ALTER TABLE {table} ATTACH PARTITION {table}_from_0"
            f" FOR VALUES FROM (MINVALUE) TO ({(last // _SIZE + 1) * _SIZE})"
        )
        op.execute(f"ALTER TABLE {table} ATTACH PARTITION {table}_rest DEFAULT")


def downgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        return
    for table, _, key, storage in _TABLES:
        op.execute(f"CREATE TABLE {table}_whole (LIKE {table} INCLUDING DEFAULTS) {storage}")
        op.execute(f"INSERT INTO {table}_whole SELECT * FROM {table}")  # noqa: S608  # our own names
        if table == "message":  # dropping the table would drop the sequence
            op.execute("ALTER SEQUENCE message_ids OWNED BY message_whole.id")
        op.execute(f"DROP TABLE {table}")
        op.execute(f"ALTER TABLE {table}_whole RENAME TO {table}")
        op.execute(f"ALTER TABLE {table} ADD CONSTRAINT {table}_pkey PRIMARY KEY ({key})")
        for statement in _INDEXES[table]:
            op.execute(statement)
    op.execute("ALTER SEQUENCE message_ids RENAME TO message_id_seq")
    op.execute("DROP TABLE message_identity")
    op.execute("CREATE UNIQUE INDEX message_identity ON message (identity, digest, edition)")
