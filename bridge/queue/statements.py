"""
SQL statements of the queues whose speed depends on an index.

The lanes run these texts, and tests check their query plans. The statements of the log are in
`log_tables`. `INBOX` and `OUTBOX` fill in the table names; the row-locking clauses are
the Database's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

from sqlalchemy import BigInteger, ColumnClause, TableClause, column, table
from sqlalchemy.dialects.postgresql import insert

from bridge.queue.listing_rows import DeliveryRow, MessageRow
from bridge.store.statements import (
    BulkStatement,
    DialectStatement,
    KeyStatement,
    dialect_statement,
    key_statement,
    unnest,
)


@dataclass(frozen=True, slots=True)
class LaneStatements:
    """The statements to claim and settle in one queue; `bridge.queue.lanes` runs them."""

    lanes: tuple[str, ...]
    candidates: str  # followed by a locking clause
    candidates_from: str  # PostgreSQL, from an id on
    blockers: KeyStatement  # the row that each row waits for, by lane
    guard: BulkStatement  # PostgreSQL: locks the positions that no transaction is leaving
    block: KeyStatement
    claim: KeyStatement
    claim_acknowledged: KeyStatement  # also stores that the acknowledgment was sent
    claim_lane: BulkStatement  # marks positions as claimed
    held: str  # the rows that an owner has claimed; followed by a locking clause
    leave: BulkStatement  # deletes positions
    enter: BulkStatement  # inserts positions
    free_lane: BulkStatement  # marks positions as not claimed
    settle: BulkStatement
    settles_notes: bool  # whether `settle` has the notes as its last value
    unblock_head: str  # SQLite, for each lane
    heads: BulkStatement  # PostgreSQL: ids of the first rows, which select the partition
    unblock: KeyStatement
    overdue: str  # claims whose lease has expired; followed by a locking clause
    extend: KeyStatement
    enter_range: DialectStatement
    """Adds messages of a range of ids to their lanes."""


_CANDIDATES = """
    SELECT id, {lanes} FROM {table}
    WHERE {of_destination} state = 'queued' AND blocked = 0 AND not_before <= :now
    ORDER BY not_before DESC, id LIMIT :limit
"""
# The same order. `near` is the start of the index scan: claimed rows stay in the index until
# VACUUM, and each claim of a long backlog would scan all of them.
_CANDIDATES_FROM = """
    SELECT id, {lanes} FROM (
        SELECT id, {lanes} FROM {table}
        WHERE {of_destination} id >= :floor AND state = 'queued' AND blocked = 0
            AND not_before > 0 AND not_before <= :now
        ORDER BY not_before DESC, id LIMIT :limit FOR UPDATE SKIP LOCKED
    ) AS put_off
    UNION ALL SELECT id, {lanes} FROM (
        SELECT id, {lanes} FROM {table}
        WHERE {of_destination} id >= :floor AND state = 'queued' AND blocked = 0
            AND not_before = 0 AND id >= :near
        ORDER BY id LIMIT :limit FOR UPDATE SKIP LOCKED
    ) AS fresh
"""
# An earlier row of the lane, or a claimed one. Either of them blocks the row.
_BLOCKER = """
    SELECT m.id, m.{lane} AS lane, coalesce(
        (SELECT o.{key} FROM {table}_lane AS o
         WHERE o.lane = m.{lane} AND o.{key} < m.id ORDER BY o.{key} LIMIT 1),
        (SELECT o.{key} FROM {table}_lane AS o
         WHERE o.lane = m.{lane} AND o.claimed = 1 AND o.{key} <> m.id LIMIT 1)
    ) AS blocker
    FROM {table} AS m WHERE m.id IN :ids AND m.{lane} IS NOT NULL
"""
_GUARD = """
    SELECT l.lane, l.{key} AS id FROM {given} AS requested (lane, id) CROSS JOIN LATERAL (
        SELECT o.lane, o.{key} FROM {table}_lane AS o
        WHERE o.lane = requested.lane AND o.{key} = requested.id FOR SHARE SKIP LOCKED
    ) AS l
"""
_BLOCK = "UPDATE {table} SET blocked = 1 WHERE id IN :ids"
_CLAIM = """
    UPDATE {table} SET state = 'claimed', attempts = attempts + 1, owner = :owner,
        lease_until = :lease_until{acknowledged}
    WHERE id IN :ids
"""
_ACKNOWLEDGED = """,
        acknowledgment = replace(acknowledgment, 'pending', 'delivered')"""
# All nodes lock positions in this sorted order.
_POSITION_TYPES = ("bigint", "bigint")
_ORDERED = "SELECT * FROM {given} AS p (lane, id) ORDER BY lane, id"
_LOCKED = """
    WITH requested AS MATERIALIZED ({ordered}), places AS MATERIALIZED (
        SELECT l.lane, l.{key} AS id FROM requested AS a
        JOIN {table}_lane AS l ON l.lane = a.lane AND l.{key} = a.id
        ORDER BY l.lane, l.{key} FOR UPDATE OF l{lock_option}
    )
"""
_MARK_LANE = (
    "UPDATE {table}_lane SET claimed = {claimed} WHERE lane = ? AND {key} = ?",
    """
    {locked} UPDATE {table}_lane AS l SET claimed = {claimed}
    FROM places AS p WHERE l.lane = p.lane AND l.{key} = p.id RETURNING l.lane, l.{key}
    """,
)
# `state || ''` avoids the index of leases, which holds all former claims until VACUUM.
_HELD = """
    SELECT id, {stored_at} AS stored_at, attempts, {lanes} FROM {table}
    WHERE id IN :ids AND state || '' = 'claimed' AND owner = :owner ORDER BY id
"""
_LEAVE = (
    "DELETE FROM {table}_lane WHERE lane = ? AND {key} = ?",
    """
    {locked} DELETE FROM {table}_lane AS l
    USING places AS p WHERE l.lane = p.lane AND l.{key} = p.id
    """,
)
_ENTER = (
    "INSERT INTO {table}_lane (lane, {key}) VALUES (?, ?) ON CONFLICT DO NOTHING",
    "INSERT INTO {table}_lane (lane, {key}) {ordered} ON CONFLICT DO NOTHING",
)
_ENTER_RANGE = """
    SELECT {lane}, id FROM {table}
    WHERE id > :entered AND id <= :upto AND state = 'queued' AND {lane} IS NOT NULL
"""
_SETTLEMENT_TYPES = ("bigint", "text", "bigint", "text", "text", "text", "bigint")
_SETTLE = (
    """
    UPDATE {table} SET state = ?2, not_before = ?3, owner = NULL, lease_until = NULL,
        failure = ?4, code = ?5, detail = ?6, settled_at = ?7{set_notes}
    WHERE id = ?1
    """,
    """
    UPDATE {table} AS m SET state = s.state, not_before = s.not_before, owner = NULL,
        lease_until = NULL, failure = s.failure, code = s.code, detail = s.detail,
        settled_at = s.settled_at{set_notes}
    FROM {given} AS s (id, state, not_before, failure, code, detail, settled_at{notes})
    WHERE m.id = s.id AND m.id = ANY(%s::bigint[])
    """,
)
_SET_NOTES = (", notes = coalesce(?8, notes)", ", notes = coalesce(s.notes, m.notes)")
_LANE_TYPES = ("bigint",)
_HEAD = "SELECT o.{key} FROM {table}_lane AS o WHERE o.lane = {lane} ORDER BY o.{key} LIMIT 1"
_UNBLOCK_HEAD = f"UPDATE {{table}} SET blocked = 0 WHERE blocked = 1 AND id = ({_HEAD})"  # noqa: S608  # our own names
_HEADS = f"SELECT ({_HEAD}) AS id FROM {{given}} AS a (lane)"  # noqa: S608  # our own names
# All statements lock rows by id.
_UNBLOCK = """
    WITH waiting AS MATERIALIZED (
        SELECT m.id FROM {table} AS m WHERE m.blocked = 1 AND m.id IN :ids ORDER BY m.id FOR UPDATE
    )
    UPDATE {table} AS m SET blocked = 0 FROM waiting AS w WHERE m.id = w.id AND m.id IN :ids
"""
_OVERDUE = """
    SELECT id, owner, {lanes} FROM {table}
    WHERE state = 'claimed'
        AND (lease_until < :now OR lease_until > :latest OR owner = :owner)
    ORDER BY lease_until
"""
_EXTEND = """
    UPDATE {table} SET lease_until = :lease_until
    WHERE id IN :ids AND state || '' = 'claimed' AND owner = :owner RETURNING id
"""


def _bulk_statement(
    names: Mapping[str, str],
    texts: tuple[str, str],
    types: tuple[str, ...] = _POSITION_TYPES,
    claimed: int = 0,
    repeated: tuple[int, ...] = (),
    lock_option: str = "",
) -> BulkStatement:
    given = unnest(types)
    ordered = _ORDERED.format(given=given)
    locked = _LOCKED.format(**names, ordered=ordered, lock_option=lock_option)
    more = {"given": given, "ordered": ordered, "locked": locked, "claimed": claimed}
    sqlite, postgres = (template.format(**names, **more) for template in texts)
    return BulkStatement(types, sqlite, postgres, repeated=repeated)


def _settle(bulk: Callable[..., BulkStatement], *, with_notes: bool) -> BulkStatement:
    """Return the statement that settles claimed rows; notes that are NULL stay as they are."""
    set_notes = _SET_NOTES if with_notes else ("", "")
    texts = tuple(
        text.replace("{set_notes}", own).replace("{notes}", ", notes" if with_notes else "")
        for text, own in zip(_SETTLE, set_notes, strict=True)
    )
    types = (*_SETTLEMENT_TYPES, "text") if with_notes else _SETTLEMENT_TYPES
    return bulk(texts, types, repeated=(0,))


def _lane_statements(
    queue: Mapping[str, str],
    lanes: tuple[str, ...],
    acknowledged: str = "",
    *,
    settles_notes: bool = False,
) -> LaneStatements:
    names = {**queue, "lanes": ", ".join(lanes)}
    bulk = partial(_bulk_statement, names)

    def fill(template: str, lane: str = "", given: str = "", acknowledged: str = "") -> str:
        return template.format(**names, lane=lane, given=given, acknowledged=acknowledged)

    blockers = " UNION ALL ".join(fill(_BLOCKER, lane) for lane in lanes)
    places = " UNION ALL ".join(fill(_ENTER_RANGE, lane) for lane in lanes)
    enter_range = (
        fill("INSERT INTO {table}_lane (lane, {key}) ") + f"{places} ON CONFLICT DO NOTHING"
    )
    return LaneStatements(
        lanes=lanes,
        candidates=fill(_CANDIDATES),
        candidates_from=fill(_CANDIDATES_FROM),
        blockers=key_statement(blockers),
        guard=BulkStatement(_POSITION_TYPES, "", fill(_GUARD, given=unnest(_POSITION_TYPES))),
        block=key_statement(fill(_BLOCK)),
        claim=key_statement(fill(_CLAIM)),
        claim_acknowledged=key_statement(fill(_CLAIM, acknowledged=acknowledged)),
        claim_lane=bulk(_MARK_LANE, claimed=1, lock_option=" SKIP LOCKED"),
        held=fill(_HELD),
        leave=bulk(_LEAVE),
        enter=bulk(_ENTER),
        free_lane=bulk(_MARK_LANE),
        settle=_settle(bulk, with_notes=settles_notes),
        settles_notes=settles_notes,
        unblock_head=fill(_UNBLOCK_HEAD, lane="?"),
        heads=BulkStatement(
            _LANE_TYPES, "", fill(_HEADS, lane="a.lane", given=unnest(_LANE_TYPES))
        ),
        unblock=key_statement(fill(_UNBLOCK)),
        overdue=fill(_OVERDUE),
        extend=key_statement(fill(_EXTEND)),
        enter_range=dialect_statement(enter_range),
    )


ENTERED_UP_TO = dialect_statement("SELECT message_id FROM lane_watermark")
SET_ENTERED_UP_TO = dialect_statement("UPDATE lane_watermark SET message_id = :upto")
"""The id up to which messages were copied from the log, and have entered their lanes; SQLite."""

# Settlements lock rows in the same order, so that no deadlock occurs.
ACKNOWLEDGED = replace(
    key_statement("""
        UPDATE message SET acknowledgment = 'delivered'
        WHERE id IN :ids AND acknowledgment = 'pending'
    """),
    postgres="""
        UPDATE message SET acknowledgment = 'delivered'
        WHERE id = ANY(%(ids)s::bigint[]) AND acknowledgment = 'pending' AND id IN (
            SELECT id FROM message WHERE id = ANY(%(ids)s::bigint[]) ORDER BY id FOR UPDATE
        )
    """,
)
"""Records that the acknowledgments of messages were sent."""

_INBOX = {"table": "message", "key": "message_id", "stored_at": "received_at", "of_destination": ""}
_OUTBOX = {
    "table": "delivery",
    "key": "delivery_id",
    "stored_at": "created_at",
    "of_destination": "destination = :destination AND",
}
INBOX = _lane_statements(_INBOX, ("lane_1", "lane_2"), _ACKNOWLEDGED, settles_notes=True)
OUTBOX = _lane_statements(_OUTBOX, ("lane",))


def _table(
    name: str, row: type[MessageRow | DeliveryRow], numbers: list[str], more: list[str]
) -> TableClause:
    columns = [
        _number(field.name) if "int" in str(field.type) else column(field.name)
        for field in fields(row)
    ]
    return table(name, *columns, *map(_number, numbers), *map(column, more))


def _number(name: str) -> ColumnClause[Any]:
    """Declare a 64-bit column: untyped, a time in ms would be bound as 32 bits."""
    return column(name, BigInteger())


MESSAGE = _table("message", MessageRow, ["lane_1", "lane_2", "blocked", "digest"], ["notes"])
MESSAGE_BODY = table("message_body", _number("message_id"), column("payload"), column("ack"))
DELIVERY = _table("delivery", DeliveryRow, ["lane", "blocked", "sites_hash"], ["orders", "reply"])
DELIVERY_BODY = table("delivery_body", _number("delivery_id"), column("payload"), _number("digest"))
MESSAGE_NUMBER = table("message_number", _number("number"), _number("message_id"))
MESSAGE_ENTRY = table("message_entry", _number("message_id"), _number("absent"), _number("orders"))
"""Which tags the orders of a message lack; written by the message index, and by a replay."""
_ENTRY = insert(MESSAGE_ENTRY)
SET_ENTRY = _ENTRY.on_conflict_do_update(
    index_elements=[MESSAGE_ENTRY.c.message_id],
    set_={name: _ENTRY.excluded[name] for name in ("absent", "orders")},
)


def entry_row(message_id: int, entry: tuple[int, int]) -> dict[str, int]:
    """Return the parameters of `SET_ENTRY`: the bits of absent tags, and the number of orders."""
    absent, orders = entry
    return {"message_id": message_id, "absent": absent, "orders": orders}


MESSAGE_EDIT = table("message_edit", _number("message_id"), _number("origin_id"))
