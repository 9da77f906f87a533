"""
The unit of work: a transaction with its actor, its time, and the changes that it announces.

A use case gets a `Work`, locks rows, applies the rules, writes, and announces each change. Audit
events and feed changes are appended in the statement batch that commits. Both therefore grow in
commit order, and no row lock is requested while their locks are held.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection
from sqlmodel import Session

from bridge.audit.chain import ENGINE_CHAIN
from bridge.audit.events import AuditEvent
from bridge.engine.records.tables import FeedChange, metadata
from bridge.store.database import Database
from bridge.store.statements import bind_insert

FEED_LOCK = "engine change feed"
FEED_CHANNEL = "engine_changes"
CHANGES = metadata.tables[str(FeedChange.__tablename__)]


@dataclass(frozen=True, slots=True)
class ActorRef:
    """The actor: account, access token and page session. All are None for scheduled work."""

    account_id: int | None = None
    token_id: int | None = None
    session_pk: int | None = None


class ChangeEvent(StrEnum):
    """
    The kinds of changes in the feed.

    The names are those of the interface reference where it defines one.
    """

    ORDER_REGISTERED = "order_registered"
    ORDER_UPDATED = "order_updated"
    ORDER_RETURNED = "order_returned"
    ORDERS_LINKED = "orders_linked"
    ORDERS_UNLINKED = "orders_unlinked"
    PATIENT_UPDATED = "patient_updated"
    PATIENT_MERGED = "patient_merged"
    REPORT_CREATED = "report_created"
    REPORT_OPENED = "report_opened"
    REPORT_TRANSFERRED = "report_transferred"
    REPORT_CONTENT_UPDATED = "report_content_updated"
    REPORT_FILES_UPDATED = "report_files_updated"
    REPORT_PRELIMED = "report_prelimed"
    REPORT_PRELIM_WITHDRAWN = "report_prelim_withdrawn"
    REPORT_SIGNED = "report_signed"
    REPORT_UNSIGNED = "report_unsigned"
    REPORT_FINALIZED = "report_finalized"
    REPORT_RESET = "report_reset"
    REPORT_UNASSIGNED = "report_unassigned"
    REPORT_DISCARDED = "report_discarded"
    REPORT_DELETED = "report_deleted"
    ADDENDUM_CREATED = "addendum_created"
    ADDENDUM_CONTENT_UPDATED = "addendum_content_updated"
    ADDENDUM_CANCELLED = "addendum_cancelled"
    ADDENDUM_SIGNED = "addendum_signed"
    ADDENDUM_UNSIGNED = "addendum_unsigned"
    ADDENDUM_FINALIZED = "addendum_finalized"
    ADDENDUM_RETRACTED = "addendum_retracted"


@dataclass(slots=True)
class Work:
    """One transaction. `now` is the server time in milliseconds since the epoch."""

    connection: Connection
    actor: ActorRef
    now: int
    announced: list[dict[str, Any]] = field(default_factory=list, repr=False)
    audit_events: list[AuditEvent] = field(default_factory=list)
    audit_members: dict[str, Any] = field(default_factory=dict, repr=False)
    """
    Members `target`, `before` and `after` of the audit event, set by use cases that know them.
    """
    _announced_once: dict[
        tuple[str, str, ChangeEvent], tuple[int, Callable[[], Mapping[str, Any]]]
    ] = field(default_factory=dict, repr=False)
    _session: Session | None = field(default=None, repr=False)

    @property
    def session(self) -> Session:
        """The ORM session on the connection, created on first use."""
        if self._session is None:
            # The session never ends a transaction or savepoint that it did not start.
            self._session = Session(bind=self.connection, join_transaction_mode="rollback_only")
        return self._session

    def flush(self) -> None:
        """Write pending ORM changes, if there are any."""
        if self._session is not None:
            self._session.flush()

    def close(self) -> None:
        """Close the ORM session and discard pending changes."""
        if self._session is not None:
            self._session.close()

    def announce(
        self, site_id: str, report_id: str, event: ChangeEvent, body: Mapping[str, Any]
    ) -> None:
        """
        Add a change to the feed at the commit.

        `body` is made by `bridge.engine.service.change_feed`.
        """
        self.announced.append(
            {
                "site_id": site_id,
                "report_id": report_id,
                "at": self.now,
                "event": event.value,
                "body": dict(body),
                "session_pk": self.actor.session_pk,
            }
        )

    def announce_once(
        self,
        site_id: str,
        report_id: str,
        event: ChangeEvent,
        describe: Callable[[], Mapping[str, Any]],
    ) -> None:
        """
        Add a change to the feed at the commit, once for a report and an event.

        `describe` makes the body when the use case has ended. A batch that changes each order of a
        report would otherwise store all of the report's orders once for each of them.
        """
        change = (site_id, report_id, event)
        if change not in self._announced_once:
            self._announced_once[change] = len(self.announced), describe
            self.announce(site_id, report_id, event, {})

    def describe_announced(self) -> None:
        """Make the bodies of `announce_once`."""
        for position, describe in self._announced_once.values():
            self.announced[position]["body"] = dict(describe())
        self._announced_once.clear()

    def audit(self, event: AuditEvent) -> None:
        """Add an event to the audit trail. It is recorded only if the transaction commits."""
        self.audit_events.append(event)

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Run a block in a savepoint. An error rolls back the block and drops what it announced."""
        self.flush()
        announced, audited = len(self.announced), len(self.audit_events)
        try:
            with self.connection.begin_nested():
                yield
                self.flush()
        except BaseException:
            del self.announced[announced:]
            del self.audit_events[audited:]
            kept = self._announced_once.items()
            self._announced_once = {key: change for key, change in kept if change[0] < announced}
            self._forget_changes()
            raise

    def _forget_changes(self) -> None:
        """Drop ORM changes that were rolled back; other rows are loaded again on their next use."""
        if self._session is not None:
            for row in (*self._session.new, *self._session.deleted):
                self._session.expunge(row)
            self._session.expire_all()


def event_kinds(announced: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    return frozenset(change["event"] for change in announced)


@dataclass(slots=True)
class CommitRecords:
    """The audit events and feed changes that a transaction appends just before its commit."""

    audit_events: list[tuple[int, AuditEvent]] = field(default_factory=list)
    announced: list[dict[str, Any]] = field(default_factory=list, repr=False)

    def add(self, work: Work) -> None:
        """Add the events and changes of a unit of work that succeeded."""
        self.audit_events += [(work.now, event) for event in work.audit_events]
        self.announced += work.announced

    def append(self, connection: Connection, database: Database) -> None:
        """Append the records at the commit (`Database.append_at_commit`)."""
        ENGINE_CHAIN.record_all(connection, database, self.audit_events)
        if self.announced:
            changes = bind_insert(connection, CHANGES, self.announced)
            database.append_at_commit(connection, FEED_LOCK, [changes], FEED_CHANNEL)


@contextmanager
def nested_work(connection: Connection, actor: ActorRef, now: int) -> Iterator[Work]:
    """Run a use case in a shared write transaction. The caller collects and appends its records."""
    with closing(Work(connection, actor, now)) as work:
        yield work
        work.describe_announced()
        work.flush()


@contextmanager
def work_within(
    connection: Connection, database: Database, actor: ActorRef, now: int
) -> Iterator[Work]:
    """Run a use case in a write transaction that the caller commits; append its records."""
    records = CommitRecords()
    with closing(Work(connection, actor, now)) as work:
        yield work
        work.describe_announced()
        work.flush()
    records.add(work)
    records.append(connection, database)


@contextmanager
def transaction(database: Database, actor: ActorRef, now: int) -> Iterator[Work]:
    with database.write() as connection, work_within(connection, database, actor, now) as work:
        yield work
