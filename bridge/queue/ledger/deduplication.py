"""
Deduplication: decide which arrivals are new, and the statements that find and store messages.

The same identity and the same content is a retransmit. The same identity and other content is
another message, because senders restart their counters. `decide` is pure. The statements run on the
driver's cursor; tests check the query plans of these texts. One text serves any number of rows, so
that it is prepared once.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from typing_extensions import override

from bridge.queue.digests import stored_digest
from bridge.queue.ledger.arrivals import Arrival
from bridge.queue.states import QueueState
from bridge.store.postgresql.connection import BinaryArray, binary_arrays

_NEGATIVE = frozenset({"AE", "AR", "CE", "CR"})
_Key = tuple[int, int]


class StoredMessage(NamedTuple):
    """The columns of a stored message that `decide` compares."""

    identity: int
    digest: int
    edition: int
    message_id: int
    ack_code: str


class AdmissionDecision(NamedTuple):
    """
    Whether an arrival is new, or a copy of a stored message or of one in this batch.

    `edition` counts the messages with this identity and content, from 0. `reused`: a message with
    other content has used the control id. Of a copy, `stored` is the id of the stored original, or
    `batch_position` the position of the original in the batch. `first_part` is set for a later part
    that is not stored, because its message is a copy or refused: the position of the first part.
    """

    edition: int
    reused: bool = False
    stored: int | None = None
    batch_position: int | None = None
    first_part: int | None = None

    @property
    def is_copy(self) -> bool:
        """Whether the original is known."""
        return self.stored is not None or self.batch_position is not None

    @property
    def is_new(self) -> bool:
        """Whether a row is written."""
        return not self.is_copy and self.first_part is None


@dataclass(slots=True)
class _Known:
    """The latest message with an identity and content: stored, or at a position of the batch."""

    edition: int
    refused: bool
    stored: int | None
    batch_position: int | None

    def copied(self) -> AdmissionDecision:
        return AdmissionDecision(
            self.edition, stored=self.stored, batch_position=self.batch_position
        )


NEW_MESSAGE = AdmissionDecision(edition=0)
"""The decision for an unknown identity."""


def decide(arrivals: Sequence[Arrival], stored: Sequence[StoredMessage]) -> list[AdmissionDecision]:
    """
    Return one decision for each arrival, in order.

    `stored` are all messages that share an identity with an arrival. If a copy was refused and
    would now be accepted, it is a new message: a definition or setting has been corrected since.
    The parts of a message follow its first part.
    """
    if not stored and len({arrival.identity for arrival in arrivals}) == len(arrivals):
        return [NEW_MESSAGE] * len(arrivals)  # the usual case
    known = _latest(stored)
    contents = _accepted_contents(known)
    decisions: list[AdmissionDecision] = []
    first = 0  # position of the first part
    for position, arrival in enumerate(arrivals):
        content = stored_digest(arrival.digest)
        others = contents.setdefault(arrival.identity, set())
        if arrival.is_later_part:
            reused = decisions[first].reused
            is_left_out = not _is_accepted(arrivals[first], decisions[first])
        else:
            first, is_left_out = position, False
            reused = len(others) > (content in others)
        refused = _is_refused(arrival, reused)
        before = known.get((arrival.identity, content))
        if before is not None and (refused or is_left_out or not before.refused):
            decisions.append(before.copied())
            continue
        if is_left_out:
            decisions.append(AdmissionDecision(0, first_part=first))
            continue
        edition = before.edition + 1 if before else 0
        decisions.append(AdmissionDecision(edition, reused))
        known[arrival.identity, content] = _Known(edition, refused, None, position)
        if not refused:
            others.add(content)
    return decisions


def _latest(stored: Iterable[StoredMessage]) -> dict[_Key, _Known]:
    known: dict[_Key, _Known] = {}
    for row in stored:
        key = (row.identity, row.digest)
        if key not in known or known[key].edition < row.edition:
            refused = row.ack_code in _NEGATIVE
            known[key] = _Known(row.edition, refused, row.message_id, None)
    return known


def _accepted_contents(known: Mapping[_Key, _Known]) -> dict[int, set[int]]:
    """Return the contents by identity; a refused message has not used its control id."""
    contents: dict[int, set[int]] = {}
    for (identity, content), each in known.items():
        if not each.refused:
            contents.setdefault(identity, set()).add(content)
    return contents


def _is_refused(arrival: Arrival, reused: bool) -> bool:
    return arrival.state is QueueState.REFUSED or (reused and arrival.refuse_reuse is not None)


def _is_accepted(arrival: Arrival, decision: AdmissionDecision) -> bool:
    return decision.is_new and not _is_refused(arrival, decision.reused)


SQLITE_KNOWN = """
    SELECT m.identity, m.digest, m.edition, m.id, m.ack_code
    FROM json_each(?) AS requested CROSS JOIN message AS m ON m.identity = requested.value
"""
# Identities are a separate table on PostgreSQL: partitions share no unique index.
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
"""Columns that the ledger writes, in this order. Payload and acknowledgment follow."""

_NAMES = ", ".join(name for name, _ in COLUMNS)

# Ids are never reused, even if all newer rows have been deleted.
SQLITE_LAST_ID = """
    SELECT max(coalesce((SELECT max(id) FROM message), 0),
               (SELECT message_id FROM lane_watermark))
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
# Stores nothing if an identity is known. LATERAL with OFFSET 0 forces an index lookup for each
# identity: without statistics PostgreSQL would compare all stored rows with the batch.
POSTGRES_INSERT_NEW = f"""
    WITH arrivals AS MATERIALIZED ({_GIVEN}), known AS MATERIALIZED (
        SELECT 1 FROM arrivals CROSS JOIN LATERAL (
            SELECT 1 FROM message_identity AS i WHERE i.identity = arrivals.identity OFFSET 0
        ) AS i LIMIT 1
    ), given AS MATERIALIZED (
        SELECT * FROM arrivals WHERE NOT EXISTS (SELECT FROM known)
    ), {_STORED}
"""  # noqa: S608  # our own names

# Ids are parameters in each condition: PostgreSQL prunes partitions by parameters, not by the
# result of a subquery.
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
# Settlements lock rows in the same order, so that no deadlock occurs.
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
"""The values of COLUMNS, then payload and acknowledgment."""

_WIDTH = len(COLUMNS)
_KINDS = (*(kind for _, kind in COLUMNS), "bytea", "bytea")


class LedgerDialect(Protocol):
    """The statements of the ledger on one database, within the caller's transaction."""

    def known(self, cursor: Any, identities: list[int]) -> list[StoredMessage]:
        """Find all messages that have one of these identities."""

    def insert(self, cursor: Any, rows: list[Row]) -> Sequence[int]:
        """
        Store messages; return their ids in the same order.

        Also adds them to their lanes on PostgreSQL, where a claim could not tell which are missing.
        """

    def retransmitted(self, cursor: Any, ids: list[int]) -> dict[int, tuple[bytes, str]]:
        """Count retransmits; return the stored acknowledgment and code of each message."""

    def acknowledged(self, cursor: Any, ids: list[int]) -> None:
        """Record that the acknowledgments of these messages were sent."""


class _SQLite(LedgerDialect):
    @override
    def known(self, cursor: Any, identities: list[int]) -> list[StoredMessage]:
        # JSON keeps 64-bit integers exact.
        cursor.execute(SQLITE_KNOWN, (json.dumps(identities),))
        return [StoredMessage(*row) for row in cursor.fetchall()]

    @override
    def insert(self, cursor: Any, rows: list[Row]) -> Sequence[int]:
        # This transaction is the only writer: the ids after the last one are free.
        cursor.execute(SQLITE_LAST_ID)
        numbered = list(enumerate(rows, cursor.fetchone()[0] + 1))
        cursor.executemany(SQLITE_MESSAGE, [(i, *row[:_WIDTH]) for i, row in numbered])
        cursor.executemany(SQLITE_BODY, [(i, *row[_WIDTH:]) for i, row in numbered])
        return [i for i, _ in numbered]

    @override
    def retransmitted(self, cursor: Any, ids: list[int]) -> dict[int, tuple[bytes, str]]:
        parameters = (json.dumps(ids),)
        cursor.execute(SQLITE_RETRANSMITTED, parameters)
        cursor.execute(SQLITE_STORED_ACKS, parameters)
        return _acks(cursor)

    @override
    def acknowledged(self, cursor: Any, ids: list[int]) -> None:
        cursor.execute(SQLITE_ACKNOWLEDGED, (json.dumps(ids),))


def columns_of(rows: Sequence[Row]) -> tuple[BinaryArray, ...]:
    """Return rows as the parameters of PostgreSQL's statements."""
    return binary_arrays(_KINDS, rows)


class _Postgres(LedgerDialect):
    """One round trip instead of three, because round trips take most of the time."""

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
"""By the name of the dialect (`Database.dialect`)."""
