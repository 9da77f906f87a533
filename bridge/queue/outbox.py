"""
The outbox: deliveries to each destination, in their order.

Order is strict for each destination and order; destinations never wait for one another. A payload
is composed once and stored: each repetition sends the same bytes. Blocking.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Row, bindparam, text

from bridge.index_key import keyed64
from bridge.queue import attempts
from bridge.queue.arrivals import lane
from bridge.queue.attempts import Attempt, AttemptKind
from bridge.queue.claims import CurrentSession, Settlement, no_heartbeat_session
from bridge.queue.deliveries import (
    INTERRUPTED,
    ClaimedDelivery,
    DeliveryOutcome,
    DeliveryRequest,
)
from bridge.queue.digests import digest, is_intact, stored_digest
from bridge.queue.lanes import LaneQueue, Lanes
from bridge.queue.retention.rows import newest_id
from bridge.queue.sites import delivery_sites, sites_hash
from bridge.queue.statements import DELIVERY, OUTBOX
from bridge.queue.states import QueueEvent
from bridge.queue.wakeup import CHANNEL, CLOCK_TOLERANCE_MS
from bridge.store.database import Database
from bridge.store.errors import Conflict
from bridge.store.postgresql.connection import binary_arrays
from bridge.store.records import exceptions
from bridge.store.records.exceptions import ExceptionSubject
from bridge.store.statements import (
    BoundStatement,
    BulkStatement,
    execute_all,
    execute_keys,
    execute_rows,
    execute_sql,
    is_postgresql,
    key_statement,
    unnest,
)


class NewDelivery(NamedTuple):
    """A row to insert. Times are in ms."""

    destination: str
    lane: int
    report_id: str
    release_key: str
    event: str
    orders: str
    release_at: int
    created_at: int
    control_id: str = ""
    state: str = "queued"
    attempts: int = 0
    sites_hash: int | None = None


_COLUMNS: Final = (
    ("destination", "text"),
    ("lane", "bigint"),
    *((name, "text") for name in ("report_id", "release_key", "event", "orders")),
    ("release_at", "bigint"),
    ("created_at", "bigint"),
    *((name, "text") for name in ("control_id", "state")),
    ("attempts", "integer"),
    ("sites_hash", "bigint"),
)

_NAMES: Final = ", ".join(name for name, _ in _COLUMNS)
_ON_CONFLICT: Final = "ON CONFLICT (destination, release_key) DO NOTHING"

SQLITE_DELIVERY: Final = (
    f"INSERT INTO delivery ({_NAMES}) VALUES ({', '.join('?' for _ in _COLUMNS)}) "  # noqa: S608  # our own names
    f"{_ON_CONFLICT} RETURNING id"
)
SQLITE_LANE: Final = "INSERT INTO delivery_lane (lane, delivery_id, claimed) VALUES (?, ?, 0)"
_KINDS: Final = tuple(dict(_COLUMNS).values())
_ARRAYS: Final = ", ".join(f"%b::{kind}[]" for kind in _KINDS)
# Ids follow the order of the deliveries: lanes depend on it.
POSTGRES_INSERT: Final = f"""
    WITH given AS MATERIALIZED (
        SELECT * FROM unnest({_ARRAYS}) WITH ORDINALITY AS t ({_NAMES}, place)
    ), numbered AS MATERIALIZED (
        SELECT nextval('delivery_id_seq') AS id, g.*
        FROM (SELECT * FROM given ORDER BY place) AS g
    ), new AS (
        INSERT INTO delivery (id, {_NAMES}) SELECT id, {_NAMES} FROM numbered ORDER BY id
        {_ON_CONFLICT} RETURNING id
    ), lanes AS (
        INSERT INTO delivery_lane (lane, delivery_id, claimed)
        SELECT lane, id, 0 FROM numbered JOIN new USING (id)
    )
    SELECT id FROM new
"""  # noqa: S608  # our own names


def insert_deliveries(connection: Connection, deliveries: Sequence[NewDelivery]) -> int:
    """Insert deliveries in their order; return the number of those that are new."""
    if not deliveries:
        return 0
    if is_postgresql(connection):
        return len(
            execute_sql(connection, POSTGRES_INSERT, binary_arrays(_KINDS, deliveries)).all()
        )
    ids = [execute_sql(connection, SQLITE_DELIVERY, delivery).scalar() for delivery in deliveries]
    lanes = [
        (delivery.lane, number) for delivery, number in zip(deliveries, ids, strict=True) if number
    ]
    if lanes:
        execute_sql(connection, SQLITE_LANE, lanes, many=True)
    return len(lanes)


def new_delivery(request: DeliveryRequest, lane_key: int, now: int) -> dict[str, Any]:
    return {
        "destination": request.destination,
        "lane": lane_key,
        "report_id": request.report_id,
        "release_key": request.release_key,
        "event": request.event,
        "orders": json.dumps(request.orders, ensure_ascii=False),
        "release_at": request.release_at,
        "created_at": now,
        "sites_hash": keyed64(sites_hash(delivery_sites(request.orders))),
    }


def read_claim(row: Row[Any]) -> ClaimedDelivery:
    payload = None if row.payload is None else bytes(row.payload)
    is_damaged = payload is not None and not is_intact(payload, row.digest)
    try:
        orders = json.loads(row.orders)
    except ValueError:
        orders, is_damaged = None, True
    return ClaimedDelivery(
        delivery_id=row.id,
        destination=row.destination,
        report_id=row.report_id,
        release_key=row.release_key,
        event=row.event,
        orders=orders,
        control_id=row.control_id,
        payload=None if is_damaged else payload,
        attempts=row.attempts,
        release_at=row.release_at,
        created_at=row.created_at,
        tries=row.tries or 0,
        is_damaged=is_damaged,
        is_repeat=row.acknowledged_at is not None,
    )


def settlement(outcome: DeliveryOutcome, now: int) -> Settlement:
    due = outcome.retry_at if outcome.retry_at is not None else now
    return Settlement.of(
        outcome.delivery_id,
        outcome.event,
        outcome.failure,
        outcome.code,
        outcome.detail,
        due,
        outcome.created_at,
    )


def reply_row(outcome: DeliveryOutcome, now: int) -> tuple[int, bytes, int | None, int | None, int]:
    """Return the stored result of an attempt: delivery id, reply, times and tries."""
    acknowledged = now if outcome.event is QueueEvent.ACCEPTED else None
    return outcome.delivery_id, outcome.reply or b"", outcome.sent_at, acknowledged, outcome.tries


def failed_attempt(outcome: DeliveryOutcome) -> Attempt | None:
    """Return what is stored of an attempt that was sent and not accepted, else None."""
    if outcome.sent_at is None or outcome.event is QueueEvent.ACCEPTED:
        return None
    return Attempt(
        outcome.delivery_id,
        AttemptKind.ATTEMPT,
        outcome.sent_at,
        outcome.code,
        outcome.detail,
        outcome.retry_at,
        outcome.reply or b"",
    )


LEASE_MS = 120_000
"""Lease of a claim in milliseconds: longer than any destination may take to acknowledge."""

# Releases before 2026-11-24 stored messages before their first claim, with an edition. They were
# not sent yet, so they are composed again.
_READ_CLAIMS = text("""
    SELECT d.id, d.destination, d.report_id, d.release_key, d.event, d.orders, d.control_id,
        CASE WHEN b.edition <> '' AND d.attempts = 1 AND d.tries IS NULL THEN NULL
            ELSE b.payload END AS payload,
        b.digest, d.attempts, d.release_at, d.created_at, d.tries, d.acknowledged_at
    FROM delivery AS d LEFT JOIN delivery_body AS b ON b.delivery_id = d.id
    WHERE d.id IN :ids ORDER BY d.id
""").bindparams(bindparam("ids", expanding=True))
_CORRECT_DUE_TIMES = text("""
    UPDATE delivery SET not_before = :now
    WHERE destination = :destination AND state = 'queued' AND blocked = 0 AND not_before > :latest
""")
_STORE_ONCE = """
    ON CONFLICT (delivery_id) DO UPDATE
        SET payload = excluded.payload, digest = excluded.digest, edition = ''
    WHERE delivery_body.edition <> ''
"""
_BODY_TYPES = ("bigint", "bytea", "bigint")
_STORE_PAYLOAD = BulkStatement(
    _BODY_TYPES,
    f"""
    INSERT INTO delivery_body (delivery_id, payload, digest)
    SELECT id, ?2, ?3 FROM delivery WHERE id = ?1 {_STORE_ONCE}
    """,  # noqa: S608  # our own names
    f"""
    INSERT INTO delivery_body (delivery_id, payload, digest)
    SELECT d.id, a.payload, a.digest FROM {unnest(_BODY_TYPES)} AS a (id, payload, digest)
    JOIN delivery AS d ON d.id = a.id {_STORE_ONCE}
    """,  # noqa: S608  # our own names
)
_SET_CONTROL_ID = BulkStatement(
    ("bigint", "text"),
    "UPDATE delivery SET control_id = ?2 WHERE id = ?1 AND control_id = ''",
    f"""
    UPDATE delivery AS d SET control_id = a.control_id
    FROM {unnest(("bigint", "text"))} AS a (id, control_id)
    WHERE d.id = a.id AND d.control_id = ''
    """,  # noqa: S608  # our own names
)
_READ_PAYLOADS = key_statement(
    "SELECT delivery_id, payload, digest FROM delivery_body WHERE delivery_id IN :ids"
)
FURTHER_REPLY_WINDOW = 20_000
"""Deliveries, newest first, among which a message is searched that this process has not sent."""
MAX_FURTHER_REPLIES = 20
"""Further replies of one delivery that are stored."""
_FIND_SENT = text("""
    SELECT id FROM delivery WHERE id > :after AND destination = :destination
    AND control_id = :control_id ORDER BY id DESC LIMIT 1
""")
_SELECT_ACCEPTED = text("SELECT acknowledged_at FROM delivery WHERE id = :id")
_COUNT_REPLIES = text(
    "SELECT count(*) FROM delivery_attempt WHERE delivery_id = :id AND kind = 'reply'"
)
_DELETE_PAYLOADS = key_statement("DELETE FROM delivery_body WHERE delivery_id IN :ids")
_REPLY_TYPES = ("bigint", "bytea", "bigint", "bigint", "integer")
# An earlier reply is kept if this attempt has none.
STORE_REPLY = BulkStatement(
    _REPLY_TYPES,
    """
    UPDATE delivery SET reply = coalesce(nullif(?2, x''), reply), sent_at = coalesce(?3, sent_at),
        acknowledged_at = coalesce(?4, acknowledged_at), tries = ?5
    WHERE id = ?1
    """,
    f"""
    UPDATE delivery AS d SET reply = coalesce(nullif(a.reply, ''), d.reply),
        sent_at = coalesce(a.sent_at, d.sent_at),
        acknowledged_at = coalesce(a.acknowledged_at, d.acknowledged_at), tries = a.tries
    FROM {unnest(_REPLY_TYPES)} AS a (id, reply, sent_at, acknowledged_at, tries) WHERE d.id = a.id
    """,  # noqa: S608  # our own names
)


_OPEN_LANES = key_statement(
    """
    SELECT destination, report_id, lane FROM delivery
    WHERE report_id IN :reports AND state IN ('queued', 'claimed', 'parked') ORDER BY id
    """,
    "reports",
    "text",
)

OpenLanes = Mapping[tuple[str, str], Sequence[int]]
"""The lanes of unfinished deliveries by destination and report, oldest first."""


def _open_lanes(connection: Connection, requests: Sequence[DeliveryRequest]) -> OpenLanes:
    reports = sorted({request.report_id for request in requests})
    found: dict[tuple[str, str], list[int]] = {}
    if reports:
        for row in execute_keys(connection, _OPEN_LANES, reports):
            found.setdefault((row.destination, row.report_id), []).append(row.lane)
    return found


def _lane(request: DeliveryRequest, report_lane: int, open_lanes: OpenLanes) -> int:
    """
    Return the lane of an order, or of the report.

    Orders have lanes of their own if the destination gets a message for each. If an unfinished
    delivery is in a lane of the other kind, because of an earlier release or other settings, the
    new one waits behind the last of these.
    """
    own = lane(request.destination, request.report_id, request.order)
    wanted = own if request.order else report_lane
    found = open_lanes.get((request.destination, request.report_id), ())
    other = [open_lane for open_lane in found if (open_lane == report_lane) is bool(request.order)]
    return other[-1] if other else wanted


def order_name(order_id: int) -> str:
    """Return the name under which an order without a report has deliveries."""
    return f"order {order_id}"


def serialize_report(database: Database, destination: str, report_id: str) -> list[BoundStatement]:
    """Return the statements that lock the deliveries of a report to a destination."""
    return _locks(database, [lane(destination, report_id)])


def _locks(database: Database, report_lanes: Iterable[int]) -> list[BoundStatement]:
    """Two nodes that enqueue for the same report must do so one after the other."""
    return database.serialize_statements(f"outbox {report_lane}" for report_lane in report_lanes)


class Outbox(LaneQueue):
    """
    The queue of deliveries.

    A parked delivery blocks later deliveries of its order to its destination, or of its report if
    the orders share messages, and nothing else. `session` is that of the owner's heartbeat lock.
    """

    def __init__(
        self,
        database: Database,
        owner: str,
        *,
        lease: int = LEASE_MS,
        session: CurrentSession = no_heartbeat_session,
    ) -> None:
        lanes = Lanes(database, OUTBOX, parked_block=True, session=session)
        super().__init__(database, owner, lanes, lease)

    def enqueue(self, connection: Connection, requests: Iterable[DeliveryRequest], now: int) -> int:
        """
        Add deliveries that do not exist yet, in this transaction; return their number.

        The deliveries of an order, or of a report whose orders share messages, are sent in the
        order of these calls.
        """
        requests = list(requests)
        report_lanes = [lane(request.destination, request.report_id) for request in requests]
        execute_all(connection, _locks(self._database, report_lanes))
        open_lanes = _open_lanes(connection, requests)
        rows = [
            NewDelivery(**new_delivery(request, _lane(request, report_lane, open_lanes), now))
            for request, report_lane in zip(requests, report_lanes, strict=True)
        ]
        new = insert_deliveries(connection, rows)
        if new:
            self._database.notify(connection, CHANNEL)
        return new

    def claim(self, destination: str, now: int, limit: int) -> list[ClaimedDelivery]:
        """Claim up to `limit` deliveries of different reports that no earlier one blocks."""
        incomplete = True
        claimed: list[ClaimedDelivery] = []
        while incomplete and not claimed:
            try:
                claimed, incomplete = self._claim(destination, now, limit)
            except Conflict:  # another node has just claimed in one of the lanes
                return []
        return claimed

    def _claim(self, destination: str, now: int, limit: int) -> tuple[list[ClaimedDelivery], bool]:
        # A power cut may undo the claim. Nothing is sent before its payload is stored, and the
        # commit that stores it makes the claim durable as well.
        with self._database.write_without_sync() as connection:
            claim = self._lanes.claim(
                connection,
                owner=self._owner,
                now=now,
                lease=self.lease,
                limit=limit,
                destination=destination,
            )
            ids = claim.ids
            rows = connection.execute(_READ_CLAIMS, {"ids": ids}).all() if ids else []
            return [read_claim(row) for row in rows], claim.scan_incomplete

    def store_payloads(self, composed: Mapping[int, tuple[bytes, str]]) -> dict[int, bytes]:
        """
        Store composed messages and control ids by delivery id, all or none.

        Return the payloads to send: for each delivery the first one that was ever stored.
        Deliveries that do not exist, and those whose stored payload is damaged, are absent.
        """
        rows = sorted(composed.items())
        with self._database.write() as connection:
            stored = execute_rows(
                connection,
                _STORE_PAYLOAD,
                [(key, payload, stored_digest(digest(payload))) for key, (payload, _) in rows],
            )
            execute_rows(connection, _SET_CONTROL_ID, [(key, name) for key, (_, name) in rows])
            if stored is not None and stored.rowcount == len(rows):
                return {key: payload for key, (payload, _) in rows}
            kept = execute_keys(connection, _READ_PAYLOADS, list(composed)).all()
            return {
                row.delivery_id: bytes(row.payload)
                for row in kept
                if is_intact(bytes(row.payload), row.digest)
            }

    def settle(self, outcomes: Sequence[DeliveryOutcome], now: int) -> set[int]:
        """Settle claimed deliveries; return the ids that this courier still owned."""
        with self._database.write() as connection:
            settlements = [settlement(outcome, now) for outcome in outcomes]
            owned = self._lanes.settle(connection, self._owner, now, settlements).owned
            replies = [
                reply_row(delivery_outcome, now)
                for delivery_outcome in outcomes
                if delivery_outcome.delivery_id in owned
            ]
            execute_rows(connection, STORE_REPLY, replies)
            failed = [
                failed_attempt(outcome) for outcome in outcomes if outcome.delivery_id in owned
            ]
            attempts.add(connection, filter(None, failed))
            return owned

    def add_further_reply(
        self,
        destination: str,
        control_id: str,
        delivery_id: int | None,
        reply: bytes,
        found: tuple[str, str],
        now: int,
        *,
        is_negative: bool,
    ) -> bool:
        """
        Store a reply to a message that was sent earlier; False if there is no such message.

        `delivery_id` is the delivery if it is known. Without it the newest `FURTHER_REPLY_WINDOW`
        deliveries are searched. `found` are the code of the reply and its error code. A negative
        reply to an accepted message adds an exception.
        """
        with self._database.read() as connection:
            if delivery_id is None:
                newest = newest_id(connection, DELIVERY)
                criteria = {
                    "destination": destination,
                    "control_id": control_id,
                    "after": newest - FURTHER_REPLY_WINDOW,
                }
                delivery_id = connection.execute(_FIND_SENT, criteria).scalar()
            if delivery_id is None:
                return False
            count = connection.execute(_COUNT_REPLIES, {"id": delivery_id}).scalar_one()
        if count >= MAX_FURTHER_REPLIES:
            return True
        code, detail = found
        with self._database.write() as connection:
            row = connection.execute(_SELECT_ACCEPTED, {"id": delivery_id}).first()
            if row is None:
                return False
            stored = Attempt(
                delivery_id, AttemptKind.REPLY, now, code, detail, retry_at=None, reply=reply
            )
            attempts.add(connection, [stored])
            if is_negative and row.acknowledged_at is not None:
                named = f"{code} {detail}".strip()
                exceptions.add(connection, ExceptionSubject.DELIVERY, [(delivery_id, named)], now)
        return True

    def release(
        self,
        delivery_ids: Sequence[int],
        now: int,
        code: str = INTERRUPTED,
        unsent: Collection[int] = (),
        detail: str = "",
    ) -> None:
        """
        Return claims unsent, at shutdown or for the reason that `code` and `detail` name.

        The messages of `unsent` were composed for these claims. They are deleted, so that the next
        claim composes them from newer data, such as the number of a merged patient.
        """
        with self._database.write() as connection:
            owned = self._return_claims(connection, delivery_ids, now, code, detail)
            if outdated := sorted(set(unsent).intersection(owned)):
                execute_keys(connection, _DELETE_PAYLOADS, outdated)

    def correct_due_times(self, destination: str, now: int, longest: float) -> int:
        """
        Make deliveries due whose next attempt is more than `longest` seconds away; return the
        number.

        Such a time was set by a node whose clock was ahead.
        """
        latest = now + round(longest * 1000) + CLOCK_TOLERANCE_MS
        parameters = {"destination": destination, "now": now, "latest": latest}
        with self._database.write() as connection:
            return connection.execute(_CORRECT_DUE_TIMES, parameters).rowcount
