"""
What is to be delivered, to whom, and in which order.

Strict order for each destination and report; destinations never wait for one another. A payload
is composed once and kept: every repeat sends the same bytes. Blocking: call it from a thread.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, bindparam, text

from bridge.queue.deliveries import ClaimedDelivery, DeliveryOutcome, Release
from bridge.queue.errors import NoSuchRow
from bridge.queue.hashing import lane
from bridge.queue.lanes import Line, Settlement
from bridge.queue.statements import OUTBOX
from bridge.queue.states import Event
from bridge.queue.waking import CHANNEL
from bridge.store.database import Database
from bridge.store.errors import Conflict
from bridge.store.presence import lock_name

LEASE = 120_000
"""Milliseconds a claim lasts: longer than any destination may take to acknowledge."""


_ENQUEUE = text("""
    INSERT INTO delivery (destination, lane, report_id, release_key, event, orders, release_at,
        created_at, state)
    VALUES (:destination, :lane, :report_id, :release_key, :event, :orders, :release_at,
        :created_at, 'queued')
    ON CONFLICT (destination, release_key) DO NOTHING RETURNING id
""")
_CLAIMED = text("""
    SELECT d.id, d.destination, d.report_id, d.release_key, d.event, d.orders, d.control_id,
        b.payload, d.attempts, d.release_at, d.created_at, d.tries
    FROM delivery AS d LEFT JOIN delivery_body AS b ON b.delivery_id = d.id
    WHERE d.id IN :ids ORDER BY d.id
""").bindparams(bindparam("ids", expanding=True))
_STORE = text("""
    INSERT INTO delivery_body (delivery_id, payload)
    SELECT id, :payload FROM delivery WHERE id = :id
    ON CONFLICT (delivery_id) DO NOTHING RETURNING delivery_id
""")
_NAME = text("UPDATE delivery SET control_id = :control_id WHERE id = :id")
_STORED = text("""
    SELECT b.payload, d.control_id FROM delivery_body AS b
    JOIN delivery AS d ON d.id = b.delivery_id WHERE d.id = :id
""")
_STORE_MANY = text("""
    INSERT INTO delivery_body (delivery_id, payload)
    SELECT id, :payload FROM delivery WHERE id = :id
    ON CONFLICT (delivery_id) DO NOTHING
""")
_NAME_MANY = text("""
    UPDATE delivery SET control_id = :control_id WHERE id = :id AND control_id = ''
""")
_STORED_MANY = text(
    "SELECT delivery_id, payload FROM delivery_body WHERE delivery_id IN :ids"
).bindparams(bindparam("ids", expanding=True))
_ANSWERED = text("""
    UPDATE delivery SET reply = coalesce(:reply, reply), sent_at = coalesce(:sent_at, sent_at),
        acknowledged_at = coalesce(:acknowledged_at, acknowledged_at), tries = :tries
    WHERE id = :id
""")


class Outbox:
    """
    The deliveries that wait.

    `owner` names this courier among all nodes and must survive a restart. A parked delivery
    holds up its own report at its own destination, and nothing else.
    """

    def __init__(self, database: Database, owner: str, *, lease: int = LEASE) -> None:
        self.lease = lease
        self._database = database
        self._owner = owner
        self._line = Line(database, OUTBOX, parked_block=True)

    def enqueue(self, connection: Connection, releases: Iterable[Release], now: int) -> int:
        """
        Queue what is not yet queued, within the caller's transaction; give how many were new.

        Reports are delivered in the order in which this is called for them.
        """
        new = 0
        for release in releases:
            # Two nodes that learn of the same report at once must number its releases alike.
            key = lane(release.destination, release.report_id)
            self._database.serialize(connection, f"outbox {key}")
            row = connection.execute(_ENQUEUE, _columns(release, key, now)).first()
            if row is not None:
                self._line.enter(connection, row.id, (key,))
                new += 1
        if new:
            self._database.announce(connection, CHANNEL)
        return new

    def claim(self, destination: str, now: int, limit: int) -> list[ClaimedDelivery]:
        """Take up to `limit` deliveries, of different reports, that nothing stands before."""
        more = True
        claimed: list[ClaimedDelivery] = []
        while more and not claimed:
            try:
                claimed, more = self._claim(destination, now, limit)
            except Conflict:  # another node had one of the lanes a moment before
                return []
        return claimed

    def _claim(self, destination: str, now: int, limit: int) -> tuple[list[ClaimedDelivery], bool]:
        with self._database.write() as connection:
            ids, more = self._line.claim(
                connection,
                owner=self._owner,
                now=now,
                lease_until=now + self.lease,
                limit=limit,
                channel=destination,
            )
            rows = connection.execute(_CLAIMED, {"ids": ids}).all() if ids else []
            return [_claimed(row) for row in rows], more

    def store_payload(self, delivery_id: int, payload: bytes, control_id: str) -> tuple[bytes, str]:
        """
        Keep the composed message; give what is to be sent: the first that was ever kept.

        Raises NoSuchRow when there is no such delivery.
        """
        with self._database.write() as connection:
            parameters = {"id": delivery_id, "payload": payload}
            if connection.execute(_STORE, parameters).first() is not None:
                connection.execute(_NAME, {"id": delivery_id, "control_id": control_id})
            row = connection.execute(_STORED, {"id": delivery_id}).first()
            if row is None:
                raise NoSuchRow("delivery", delivery_id)
            return bytes(row.payload), row.control_id

    def store_payloads(self, composed: Mapping[int, tuple[bytes, str]]) -> dict[int, bytes]:
        """
        Keep composed messages with their control ids, by delivery; give what is to be sent.

        As `store_payload`, all or none; a delivery that there is not is absent.
        """
        with self._database.write() as connection:
            rows = [
                {"id": number, "payload": payload, "control_id": name}
                for number, (payload, name) in sorted(composed.items())
            ]
            connection.execute(_STORE_MANY, rows)
            connection.execute(_NAME_MANY, rows)
            kept = connection.execute(_STORED_MANY, {"ids": list(composed)})
            return {row.delivery_id: bytes(row.payload) for row in kept}

    def settle(self, outcomes: Sequence[DeliveryOutcome], now: int) -> set[int]:
        """Write down what came of claimed deliveries; give the ids that were still ours."""
        with self._database.write() as connection:
            settlements = [_settlement(outcome, now) for outcome in outcomes]
            held = self._line.settle(connection, self._owner, now, settlements)
            answers = [_answer(each, now) for each in outcomes if each.delivery_id in held]
            if answers:
                connection.execute(_ANSWERED, answers)
            return held

    def release(self, delivery_ids: Sequence[int], now: int) -> None:
        """Give claims back, at shutdown."""
        with self._database.write() as connection:
            settlements = [
                Settlement.of(each, Event.INTERRUPTED, None, "interrupted", "", 0)
                for each in delivery_ids
            ]
            self._line.settle(connection, self._owner, now, settlements)
            self._database.announce(connection, CHANNEL)

    def extend(self, delivery_ids: Sequence[int], now: int) -> None:
        """Keep claims for another lease from now."""
        with self._database.write() as connection:
            self._line.extend(connection, self._owner, delivery_ids, now + self.lease)

    def reclaim(self, now: int, *, starting: bool = False) -> int:
        """Queue again what a dead courier had claimed, as `Inbox.reclaim`; give how many."""
        owner = self._owner if starting else ""
        with self._database.write() as connection:
            return len(self._line.reclaim(connection, owner=owner, now=now, own=self._owner))

    def inherit(self, owner: str, now: int) -> int:
        """Queue again what another had claimed, as `Inbox.inherit`; give how many."""
        with self._database.write() as connection:
            if not self._database.alone(connection, lock_name(owner)):
                return 0
            return len(self._line.reclaim(connection, owner=owner, now=now))


def _columns(release: Release, key: int, now: int) -> dict[str, Any]:
    return {
        "destination": release.destination,
        "lane": key,
        "report_id": release.report_id,
        "release_key": release.release_key,
        "event": release.event,
        "orders": json.dumps(release.orders, ensure_ascii=False),
        "release_at": release.release_at,
        "created_at": now,
    }


def _claimed(row: Row[Any]) -> ClaimedDelivery:
    return ClaimedDelivery(
        delivery_id=row.id,
        destination=row.destination,
        report_id=row.report_id,
        release_key=row.release_key,
        event=row.event,
        orders=json.loads(row.orders),
        control_id=row.control_id,
        payload=None if row.payload is None else bytes(row.payload),
        attempts=row.attempts,
        release_at=row.release_at,
        created_at=row.created_at,
        tries=row.tries or 0,
    )


def _settlement(outcome: DeliveryOutcome, now: int) -> Settlement:
    due = outcome.retry_at if outcome.retry_at is not None else now
    return Settlement.of(
        outcome.delivery_id, outcome.event, outcome.failure, outcome.code, outcome.detail, due
    )


def _answer(outcome: DeliveryOutcome, now: int) -> dict[str, Any]:
    delivered = outcome.event is Event.ACCEPTED
    return {
        "id": outcome.delivery_id,
        "reply": outcome.reply,
        "sent_at": outcome.sent_at,
        "acknowledged_at": now if delivered else None,
        "tries": outcome.tries,
    }
