"""The audit events of the console: who, when, what, on which row, and whether it went well.

Events name rows, users, sites and codes, and the reason that a person gave; neither what was
searched for nor what was read. They go to the chain by `bridge.audit.outbox`. Blocking.
"""

from collections.abc import Collection
from dataclasses import dataclass

from bridge.audit import outbox
from bridge.audit.events import AuditEvent, AuditOrigin, Outcome
from bridge.store.database import Database

DONE = "done"


@dataclass(frozen=True, slots=True)
class ConsoleAction:
    """One action; `subject` is such as `message 17`, `outcome` is `done` or a code."""

    email: str
    action: str
    subject: str = ""
    outcome: str = DONE
    site: str = ""
    reason: str = ""
    source: str = ""

    def event(self) -> AuditEvent:
        """Return the audit event of the action."""
        details = {"reason": self.reason} if self.reason else {}
        refused = self.outcome != DONE
        return AuditEvent(
            self.action,
            self.site or None,
            outcome=Outcome.REFUSED if refused else Outcome.SUCCESS,
            details={**details, "code": self.outcome} if refused else details,
            actor=self.email,
            origin=AuditOrigin.CONSOLE,
            source=self.source,
            target=target_of(self.subject),
        )


@dataclass(frozen=True, slots=True)
class ConsoleEventQuery:
    """Which deeds: None leaves a thing open; times in ms, `until` and `before` excluded."""

    sites: Collection[str] | None = None
    email: str | None = None
    action: str | None = None
    subject: str | None = None
    since: int | None = None
    until: int | None = None
    before: int | None = None
    limit: int = 100


def target_of(subject: str) -> tuple[str, str]:
    """Return type and id of a subject: `message 17`; of an address of a user, `user`."""
    kind, _, identity = subject.partition(" ")
    return ("user", subject) if "@" in kind else (kind, identity)


def record_action(database: Database, deed: ConsoleAction, now: int) -> None:
    """Record an action in a transaction of its own."""
    with database.write() as connection:
        outbox.add(connection, deed.event(), now)
