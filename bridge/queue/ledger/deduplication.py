"""Deduplication: decide which arrivals are new, by index lookups on the driver's own cursor.

Pure: the rows that are already stored come in, rulings go out. Same identity and same content
is a retransmit; same identity and other content is another message, for senders restart their
counters.

The tests of their query plans use these very texts.

One text for any number of rows, so that each is prepared once. Decides nothing.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from typing_extensions import override

from bridge.queue.ledger.arrivals import Arrival
from bridge.queue.states import QueueState
from bridge.store.postgresql.connection import BinaryArray, binary_arrays

_NEGATIVE = frozenset({"AE", "AR", "CE", "CR"})
_Key = tuple[int, int]


class StoredMessage(NamedTuple):
    """What admission must know of a stored message."""

    identity: int
    digest: int
    edition: int
    message_id: int
    ack_code: str


class AdmissionDecision(NamedTuple):
    """New (`edition` counts from 0), or a copy of a stored message or of one in this batch."""

    edition: int
    reused: bool = False
    stored: int | None = None
    twin: int | None = None

    @property
    def is_new(self) -> bool:
        """Whether a row is to be written."""
        return self.stored is None and self.twin is None


@dataclass(slots=True)
class _Known:
    """The latest with one identity and content: stored, or at a position of the batch."""

    edition: int
    refused: bool
    stored: int | None
    twin: int | None


def stored_digest(digest: bytes) -> int:
    """Give the 64 bits of a digest that are stored."""
    return int.from_bytes(digest[:8], signed=True)


NEW_MESSAGE = AdmissionDecision(edition=0)
"""What a message is whose identity nobody knows."""


def decide(arrivals: Sequence[Arrival], stored: Sequence[StoredMessage]) -> list[AdmissionDecision]:
    """
    Give one ruling for each arrival, in order.

    `stored` are all messages that share an identity with an arrival. Where a copy was refused
    and would now be accepted, it is a new message: to repeat the refusal would be a lie, for
    a definition or setting has been put right since.
    """
    if not stored and len({arrival.identity for arrival in arrivals}) == len(arrivals):
        return [NEW_MESSAGE] * len(arrivals)  # nearly always
    known = _latest(stored)
    contents: dict[int, set[int]] = {}
    for (identity, content), each in known.items():
        if not each.refused:  # what was never taken has used no control id
            contents.setdefault(identity, set()).add(content)
    rulings = []
    for position, arrival in enumerate(arrivals):
        content = stored_digest(arrival.digest)
        others = contents.setdefault(arrival.identity, set())
        reused = len(others) > (content in others)
        refused = _is_refused(arrival, reused)
        before = known.get((arrival.identity, content))
        if before is not None and (refused or not before.refused):
            rulings.append(
                AdmissionDecision(before.edition, stored=before.stored, twin=before.twin)
            )
            continue
        edition = before.edition + 1 if before else 0
        rulings.append(AdmissionDecision(edition, reused))
        known[arrival.identity, content] = _Known(edition, refused, None, position)
        if not refused:
            others.add(content)
    return rulings


def _latest(stored: Iterable[StoredMessage]) -> dict[_Key, _Known]:
    known: dict[_Key, _Known] = {}
    for row in stored:
        key = (row.identity, row.digest)
        if key not in known or known[key].edition < row.edition:
            refused = row.ack_code in _NEGATIVE
            known[key] = _Known(row.edition, refused, row.message_id, None)
    return known


def _is_refused(arrival: Arrival, reused: bool) -> bool:
    return arrival.state is QueueState.REFUSED or (reused and arrival.refuse_reuse is not None)


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


Row = tuple[Any, ...]
"""The values of arrival_statements.COLUMNS, then payload and acknowledgment."""

_WIDTH = len(COLUMNS)
_KINDS = (*(kind for _, kind in COLUMNS), "bytea", "bytea")


class LedgerDialect(Protocol):
    """One database's way; all within the caller's transaction."""

    def known(self, cursor: Any, identities: list[int]) -> list[StoredMessage]:
        """Find all messages that have one of these identities."""

    def insert(self, cursor: Any, rows: list[Row]) -> Sequence[int]:
        """
        Store messages; give their ids in the same order.

        Their places in the lanes too, where whoever claims could not tell which are missing.
        """

    def retransmitted(self, cursor: Any, ids: list[int]) -> dict[int, tuple[bytes, str]]:
        """Note that these came again; give the acknowledgment and code that each is owed."""

    def acknowledged(self, cursor: Any, ids: list[int]) -> None:
        """Note that the acknowledgments of these were written out."""


class _SQLite(LedgerDialect):
    @override
    def known(self, cursor: Any, identities: list[int]) -> list[StoredMessage]:
        # JSON carries 64-bit integers whole.
        cursor.execute(SQLITE_KNOWN, (json.dumps(identities),))
        return [StoredMessage(*row) for row in cursor.fetchall()]

    @override
    def insert(self, cursor: Any, rows: list[Row]) -> Sequence[int]:
        # Nobody else writes until the commit: the ids that follow the last one are free.
        cursor.execute(SQLITE_LAST_ID)
        numbered = list(enumerate(rows, cursor.fetchone()[0] + 1))
        cursor.executemany(SQLITE_MESSAGE, [(i, *row[:_WIDTH]) for i, row in numbered])
        cursor.executemany(SQLITE_BODY, [(i, *row[_WIDTH:]) for i, row in numbered])
        return [i for i, _ in numbered]

    @override
    def retransmitted(self, cursor: Any, ids: list[int]) -> dict[int, tuple[bytes, str]]:
        given = (json.dumps(ids),)
        cursor.execute(SQLITE_RETRANSMITTED, given)
        cursor.execute(SQLITE_STORED_ACKS, given)
        return _acks(cursor)

    @override
    def acknowledged(self, cursor: Any, ids: list[int]) -> None:
        cursor.execute(SQLITE_ACKNOWLEDGED, (json.dumps(ids),))


def columns_of(rows: Sequence[Row]) -> tuple[BinaryArray, ...]:
    """Give what PostgreSQL's statements of this path are told."""
    return binary_arrays(_KINDS, rows)


class _Postgres(LedgerDialect):
    """A server's way: one round trip instead of three is most of the time."""

    @override
    def known(self, cursor: Any, identities: list[int]) -> list[StoredMessage]:
        cursor.execute(POSTGRES_KNOWN, (identities,), prepare=True)
        return [StoredMessage(*row) for row in cursor.fetchall()]

    @override
    def insert(self, cursor: Any, rows: list[Row]) -> Sequence[int]:
        cursor.execute(POSTGRES_INSERT, columns_of(rows), prepare=True)
        return [row[0] for row in cursor.fetchall()]

    @override
    def retransmitted(self, cursor: Any, ids: list[int]) -> dict[int, tuple[bytes, str]]:
        cursor.execute(POSTGRES_RETRANSMITTED, {"ids": ids}, prepare=True)
        cursor.execute(POSTGRES_STORED_ACKS, {"ids": ids}, prepare=True)
        return _acks(cursor)

    @override
    def acknowledged(self, cursor: Any, ids: list[int]) -> None:
        cursor.execute(POSTGRES_ACKNOWLEDGED, {"ids": ids}, prepare=True)


def insert_new(cursor: Any, rows: list[Row]) -> Sequence[int]:
    """
    Store messages of different identities on PostgreSQL in one statement that is a transaction.

    Returns their ids in the same order. Stores nothing, and returns no ids, where a message with
    one of the identities exists.
    """
    cursor.execute(POSTGRES_INSERT_NEW, columns_of(rows), prepare=True)
    return [row[0] for row in cursor.fetchall()]


def _acks(cursor: Any) -> dict[int, tuple[bytes, str]]:
    return {number: (bytes(ack), code) for number, ack, code in cursor.fetchall()}


LEDGER_DIALECTS: Mapping[str, LedgerDialect] = {"sqlite": _SQLite(), "postgresql": _Postgres()}
"""By the name of the dialect, as `Database.dialect` has it."""
