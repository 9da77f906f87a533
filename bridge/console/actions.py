"""
Audit events of the console: who did what to which target, when, and with which outcome.

Events name rows, users, sites and codes, and the reason that the user gave. They contain neither
search terms nor message content. `bridge.audit.outbox` moves them to the hash chain. Blocking.
"""

from collections.abc import Collection
from dataclasses import dataclass

from bridge.audit import outbox
from bridge.audit.events import AuditEvent, AuditOrigin, Outcome
from bridge.store.database import Database

DONE = "done"


@dataclass(frozen=True, slots=True)
class ConsoleAction:
    """One action of a user; `subject` is such as `message 17`, `outcome` is `done` or a code."""

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
    """Criteria for audit events; None matches all. Times in ms; `until` and `before` exclusive."""

    sites: Collection[str] | None = None
    email: str | None = None
    action: str | None = None
    subject: str | None = None
    since: int | None = None
    until: int | None = None
    before: int | None = None
    limit: int = 100


def target_of(subject: str) -> tuple[str, str]:
    """Return type and id of a subject such as `message 17`; an e-mail address has type `user`."""
    kind, _, identity = subject.partition(" ")
    return ("user", subject) if "@" in kind else (kind, identity)


def record_action(database: Database, action: ConsoleAction, now: int) -> None:
    """Record an action in its own transaction."""
    with database.write() as connection:
        outbox.add(connection, action.event(), now)
