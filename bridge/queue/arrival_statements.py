"""
The ledger's statements, for the driver itself: to find, store and note arrivals by an index.

The tests of their query plans use these very texts.
"""

SQLITE_KNOWN = """
    SELECT m.identity, m.digest, m.edition, m.id, m.ack_code
    FROM json_each(?) AS asked CROSS JOIN message AS m ON m.identity = asked.value
"""
# What makes two messages the same stands apart there: partitions share no unique index.
POSTGRES_KNOWN = """
    SELECT i.identity, i.digest, i.edition, i.message_id, i.ack_code
    FROM message_identity AS i WHERE i.identity = ANY(%s)
"""

COLUMNS = (
    ("received_at", "bigint"),
    ("listener", "text"),
    ("identity", "bigint"),
    ("digest", "bigint"),
    ("edition", "integer"),
    ("message_type", "text"),
    ("mapping", "text"),
    ("mapping_version", "text"),
    ("lane_1", "bigint"),
    ("lane_2", "bigint"),
    ("flags", "integer"),
    ("ack_code", "text"),
    ("acknowledgment", "text"),
    ("error_code", "text"),
    ("error_place", "text"),
    ("state", "text"),
)
"""What the ledger writes of a message, in this order; payload and acknowledgment follow."""

_NAMES = ", ".join(name for name, _ in COLUMNS)

# Never an id again that was given before, even if all that is newer has been removed.
SQLITE_LAST_ID = """
    SELECT max(coalesce((SELECT max(id) FROM message), 0),
               (SELECT message_id FROM message_enrolled))
"""
SQLITE_MESSAGE = f"INSERT INTO message (id, {_NAMES}) VALUES (?{', ?' * len(COLUMNS)})"  # noqa: S608  # our own names
SQLITE_BODY = "INSERT INTO message_body (message_id, payload, ack) VALUES (?, ?, ?)"

_ARRAYS = ", ".join(f"%b::{kind}[]" for kind in (*dict(COLUMNS).values(), "bytea", "bytea"))
_GIVEN = f"""
    SELECT * FROM unnest({_ARRAYS}) WITH ORDINALITY AS t ({_NAMES}, payload, ack, place)
"""  # noqa: S608  # our own names
_STORED = f"""
    numbered AS MATERIALIZED (
        SELECT nextval('message_ids') AS id, g.* FROM (SELECT * FROM given ORDER BY place) AS g
    ), identities AS (
        INSERT INTO message_identity (identity, digest, edition, message_id, ack_code)
        SELECT identity, digest, edition, id, ack_code FROM numbered
    ), messages AS (
        INSERT INTO message (id, {_NAMES}) SELECT id, {_NAMES} FROM numbered
    ), bodies AS (
        INSERT INTO message_body (message_id, payload, ack) SELECT id, payload, ack FROM numbered
    ), lanes AS (
        INSERT INTO message_lane (lane, message_id)
        SELECT lane_1, id FROM numbered WHERE state = 'queued' AND lane_1 IS NOT NULL
        UNION ALL
        SELECT lane_2, id FROM numbered WHERE state = 'queued' AND lane_2 IS NOT NULL
    )
    SELECT id FROM numbered ORDER BY id
"""  # noqa: S608  # our own names
# One round trip for a whole batch. Ids are drawn in the order of the batch.
POSTGRES_INSERT = f"WITH given AS MATERIALIZED ({_GIVEN}), {_STORED}"
# And nothing of it where one of the identities is known: a transaction by itself. One by one: of a
# table that nobody has counted yet PostgreSQL thinks that the first row it meets is a match, and
# would compare all that is stored with each of the batch.
POSTGRES_INSERT_NEW = f"""
    WITH asked AS MATERIALIZED ({_GIVEN}), known AS MATERIALIZED (
        SELECT 1 FROM asked CROSS JOIN LATERAL (
            SELECT 1 FROM message_identity AS i WHERE i.identity = asked.identity OFFSET 0
        ) AS i LIMIT 1
    ), given AS MATERIALIZED (
        SELECT * FROM asked WHERE NOT EXISTS (SELECT FROM known)
    ), {_STORED}
"""  # noqa: S608  # our own names

# The ids are given where they are compared, however often: by what they are, and not by what
# another step finds, PostgreSQL leaves out the partitions that cannot have them.
_RETRANSMITTED = """
    UPDATE message SET retransmits = retransmits + 1,
        acknowledgment = CASE acknowledgment WHEN 'delivered' THEN 'pending'
                                             ELSE acknowledgment END
    WHERE id {ids}
"""
_STORED_ACKS = """
    SELECT b.message_id, b.ack, m.ack_code FROM message_body AS b
    JOIN message AS m ON m.id = b.message_id WHERE b.message_id {ids} AND m.id {ids}
"""
_ACKNOWLEDGED = """
    UPDATE message SET acknowledgment = 'delivered'
    WHERE id {ids} AND acknowledgment = 'pending'
"""
_SQLITE_GIVEN, _POSTGRES_GIVEN = "IN (SELECT value FROM json_each(?1))", "= ANY(%(ids)s::bigint[])"
# In the order in which outcomes lock the same rows: neither ever waits for the other in a circle.
_POSTGRES_LOCKED = """
    = ANY(%(ids)s::bigint[]) AND id IN (
        SELECT id FROM message WHERE id = ANY(%(ids)s::bigint[]) ORDER BY id FOR UPDATE
    )
"""
SQLITE_RETRANSMITTED = _RETRANSMITTED.format(ids=_SQLITE_GIVEN)
SQLITE_STORED_ACKS = _STORED_ACKS.format(ids=_SQLITE_GIVEN)
SQLITE_ACKNOWLEDGED = _ACKNOWLEDGED.format(ids=_SQLITE_GIVEN)
POSTGRES_RETRANSMITTED = _RETRANSMITTED.format(ids=_POSTGRES_LOCKED)
POSTGRES_STORED_ACKS = _STORED_ACKS.format(ids=_POSTGRES_GIVEN)
POSTGRES_ACKNOWLEDGED = _ACKNOWLEDGED.format(ids=_POSTGRES_LOCKED)
