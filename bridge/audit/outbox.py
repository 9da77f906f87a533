"""
The audit outbox: events of changes in the bridge's database, on their way to the chain.

The chain usually is in another database, so a change and its chained event cannot share a
transaction. Instead the event is written into `audit_outbox` in the transaction of the change
(transactional outbox), and `relay` appends it to the chain exactly once: its `event_id` is unique
there. Blocking: call from a worker thread.
"""

import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import Connection, delete, func, select
from sqlalchemy.dialects.postgresql import insert

from bridge.audit.chain import Chain
from bridge.audit.events import AuditEvent, Outcome, code_of
from bridge.errors import BridgeError
from bridge.store.database import Database, before_commit
from bridge.store.tables import AUDIT_OUTBOX
from config.toml_text import SettingsError
from mappings.language.diagnostics import MappingErrors
from parsers.limits import DocumentRefused

_BATCH: Final = 500
_REFUSALS: Final = (BridgeError, DocumentRefused, MappingErrors, SettingsError)
"""Errors that a rule raised; any other error is a failure."""
_EVENT = AUDIT_OUTBOX.c


Also = Callable[[Connection, Exception | None], None]
"""Writes more in the transaction that stores an event; the error is None if the action succeeds."""


def _nothing_else(_: Connection, __: Exception | None) -> None:
    """Write no more than the event."""


@dataclass(slots=True)
class Recording:
    """The event of an action in progress; the action adds members to it."""

    event: AuditEvent
    also: Also = _nothing_else

    def describe(
        self,
        *,
        before: Mapping[str, Any] | None = None,
        after: Mapping[str, Any] | None = None,
        **members: Any,
    ) -> None:
        """Add members of the event; call it before the change commits."""
        changes = {"before": before, "after": after, **members}
        known = {name: value for name, value in changes.items() if value is not None}
        self.event = replace(self.event, **known)

    @contextmanager
    def enqueued(self, database: Database, now: int) -> Iterator[None]:
        """Add the event to every write transaction on the database."""

        def enqueue(written: Database, connection: Connection) -> None:
            if written is database:
                add(connection, self.event, now)
                self.also(connection, None)

        token = _current.set(self)
        try:
            with before_commit(enqueue):
                yield
        finally:
            _current.reset(token)

    def finish(self, database: Database, now: int) -> None:
        """Store the event of an action that has ended, unless a transaction of the action did."""
        with database.write() as connection:
            add(connection, self.event, now)
            self.also(connection, None)

    def fail(self, database: Database, error: Exception, now: int) -> None:
        """Record that the action was refused or failed; its changes were rolled back."""
        refused = isinstance(error, _REFUSALS)
        failed = replace(
            self.event,
            event_id=secrets.token_hex(16),
            outcome=Outcome.REFUSED if refused else Outcome.FAILED,
            details={**self.event.details, "code": code_of(error)},
        )
        with database.write() as connection:
            add(connection, failed, now)
            self.also(connection, error)


_current: ContextVar[Recording | None] = ContextVar("audit_recording", default=None)


def describe(
    *, before: Mapping[str, Any] | None = None, after: Mapping[str, Any] | None = None
) -> None:
    """Add what changed to the event of the action in progress, if one is recorded."""
    if recording := _current.get():
        recording.describe(before=before, after=after)


@contextmanager
def recorded(
    database: Database, event: AuditEvent, now: int, also: Also = _nothing_else
) -> Iterator[Recording]:
    """
    Record an action on the bridge's database: one event in the transaction of its change.

    Every write transaction of the action carries the event, and the first to commit stores it. If
    the action fails or is refused, a second transaction records that, with the code of the refusal.
    An action that only reads is recorded when it has ended.

    `also` is called in each of these transactions, and may be called again for an event that is
    stored already. If it raises, nothing of the transaction is stored.
    """
    recording = Recording(replace(event, event_id=event.event_id or secrets.token_hex(16)), also)
    try:
        with recording.enqueued(database, now):
            yield recording
    except Exception as error:
        recording.fail(database, error, now)
        raise
    recording.finish(database, now)


def add(connection: Connection, event: AuditEvent, at: int) -> None:
    """Add an event to the outbox, in this transaction. It is ignored if it is there already."""
    event_id = event.event_id or secrets.token_hex(16)
    body = {**event.members(at), "event_id": event_id}
    row = {"event_id": event_id, "at": at, "body": json.dumps(body)}
    connection.execute(insert(AUDIT_OUTBOX).on_conflict_do_nothing(), row)


def pending(database: Database) -> int:
    """Return how many events wait for `relay`."""
    with database.read_committed() as connection:
        return int(connection.execute(select(func.count(_EVENT.id))).scalar_one())


def relay(database: Database, chain: Chain, chained: Database) -> int:
    """Append the events of the outbox to the chain in `chained`; return their number."""
    with before_commit(None):  # relaying does not belong to the action in progress
        return _relay(database, chain, chained)


def _relay(database: Database, chain: Chain, chained: Database) -> int:
    done = 0
    while True:
        with database.read() as connection:
            oldest = select(AUDIT_OUTBOX).order_by(_EVENT.id).limit(_BATCH)
            rows = connection.execute(oldest).all()
        if not rows:
            return done
        with chained.write() as connection:
            known = chain.known(connection, [row.event_id for row in rows])
            new = [(row.at, _event(row.body)) for row in rows if row.event_id not in known]
            chain.record_all(connection, chained, new)  # PostgreSQL ignores events of other nodes
        with database.write() as connection:
            # By event id: after a restore, other events may have these row ids.
            done_ids = [row.event_id for row in rows]
            connection.execute(delete(AUDIT_OUTBOX).where(_EVENT.event_id.in_(done_ids)))
        done += len(new)


def _event(body: str) -> AuditEvent:
    stored = json.loads(body)
    target = stored.pop("target_type"), stored.pop("target_id")
    del stored["at"], stored["version"]
    return AuditEvent(**stored, target=target)
