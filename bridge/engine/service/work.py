"""
One piece of work on the database: who does it, at what moment, and which changes it announces.

A service takes a `Work`, locks what it needs, decides by the rules, writes, and announces each
change. Deeds go to the audit trail and changes to the feed in the message that commits, so that
both grow in the order of the commits and row locks are never taken under their locks.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from bridge.store.statements import BoundStatement, bind_insert_values, execute_all, prepare_insert

FEED_LOCK = "engine change feed"
FEED_CHANNEL = "engine_changes"
CHANGES = metadata.tables[str(FeedChange.__tablename__)]
_INSERT = prepare_insert(CHANGES, ("site_id", "report_id", "at", "event", "body", "session_pk"))


@dataclass(frozen=True, slots=True)
class Actor:
    """Who does it: the account, the token that was presented, the page; all None for the clock."""

    account_id: int | None = None
    token_id: int | None = None
    session_pk: int | None = None


class ChangeEvent(StrEnum):
    """What a change of the feed says has happened; the document's event names where it has one."""

    ORDER_REGISTERED = "order_registered"
    ORDER_UPDATED = "order_updated"
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
    """
    A transaction in the making. `now` is the server's clock in milliseconds.

    `final_statements` is what is written when all else is, and needs no answer.
    """

    connection: Connection
    actor: Actor
    now: int
    announced: list[dict[str, Any]] = field(default_factory=list, repr=False)
    audit_events: list[AuditEvent] = field(default_factory=list)
    final_statements: list[BoundStatement] = field(default_factory=list, repr=False)
    audit_members: dict[str, Any] = field(default_factory=dict, repr=False)
    """Members of the audit event: its `target`, `before` and `after`, where the use case knows."""
    _session: Session | None = field(default=None, repr=False)

    @property
    def session(self) -> Session:
        """The ORM's session on the connection, made for the first who wants one."""
        if self._session is None:
            # It never ends what it did not begin, be it a transaction or a savepoint.
            self._session = Session(bind=self.connection, join_transaction_mode="rollback_only")
        return self._session

    def flush(self) -> None:
        """Write down what the session has to say, if there is one."""
        if self._session is not None:
            self._session.flush()

    def close(self) -> None:
        """Let the session go, with what it has not written."""
        if self._session is not None:
            self._session.close()

    def announce(
        self, site_id: str, report_id: str, event: ChangeEvent, body: Mapping[str, Any]
    ) -> None:
        """Remember a change for the feed; `body` is what `bridge.engine.service.change_feed`
        makes.
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

    def note(self, deed: AuditEvent) -> None:
        """Remember a deed for the audit trail: it is recorded if, and only if, the work is kept."""
        self.audit_events.append(deed)

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Keep what is done inside, or, when it raises, undo it and what it announced."""
        announced, noted, last = (
            len(self.announced),
            len(self.audit_events),
            len(self.final_statements),
        )
        try:
            with self.session.begin_nested():
                self.session.connection()  # the savepoint is set now, and not at the first row
                yield
        except BaseException:
            del self.announced[announced:], self.audit_events[noted:], self.final_statements[last:]
            self.session.expire_all()
            raise


def event_kinds(announced: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Give the kinds of events among what a piece of work announced."""
    return frozenset(each["event"] for each in announced)


@dataclass(slots=True)
class CommitRecords:
    """What a transaction appends to the trail and the feed, as the last thing before its commit."""

    audit_events: list[tuple[int, AuditEvent]] = field(default_factory=list)
    announced: list[dict[str, Any]] = field(default_factory=list, repr=False)

    def take(self, work: Work) -> None:
        """Take what a piece of work leaves behind that is kept."""
        self.audit_events += [(work.now, deed) for deed in work.audit_events]
        self.announced += work.announced

    def append(
        self, connection: Connection, database: Database, before: Sequence[BoundStatement] = ()
    ) -> None:
        """Write what goes `before`, and append the rest at the commit (`Database.at_commit`)."""
        execute_all(connection, before)
        ENGINE_CHAIN.record_all(connection, database, self.audit_events)
        if self.announced:
            changes = bind_insert_values(connection, _INSERT, self.announced)
            database.append_at_commit(connection, FEED_LOCK, [changes], FEED_CHANNEL)


@contextmanager
def nested_work(
    connection: Connection,
    actor: Actor,
    now: int,
) -> Iterator[Work]:
    """Work on a part of a write transaction; whoever opened it also appends the minutes."""
    with closing(Work(connection, actor, now)) as work:
        yield work
        work.flush()
        execute_all(connection, work.final_statements)


@contextmanager
def work_within(
    connection: Connection,
    database: Database,
    actor: Actor,
    now: int,
) -> Iterator[Work]:
    """Work inside a write transaction that somebody else opened and will commit."""
    minutes = CommitRecords()
    with closing(Work(connection, actor, now)) as work:
        yield work
        work.flush()
    minutes.take(work)
    minutes.append(connection, database, work.final_statements)


@contextmanager
def transaction(
    database: Database,
    actor: Actor,
    now: int,
) -> Iterator[Work]:
    """Work in a write transaction of its own; all of it is kept, or nothing."""
    with database.write() as connection, work_within(connection, database, actor, now) as work:
        yield work
