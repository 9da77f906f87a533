"""
Audit events of the console: who did what to which target, when, and with which outcome.

Events name rows, users, sites and codes, and the reason that the user gave. They contain neither
search terms nor message content. `bridge.audit.outbox` moves them to the hash chain. Blocking.
"""

from dataclasses import dataclass

from bridge.admin.audit_events import DONE, target_of
from bridge.audit import outbox
from bridge.audit.events import AuditEvent, AuditOrigin, Outcome
from bridge.store.database import Database


@dataclass(frozen=True, slots=True)
class ConsoleAction:
    """One action of a user; `subject` is like `message 17`, `outcome` is `done` or a code."""

    email: str
    action: str
    subject: str = ""
    outcome: str = DONE
    site: str = ""
    reason: str = ""
    source: str = ""

    def event(self) -> AuditEvent:
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


def record_action(database: Database, action: ConsoleAction, now: int) -> None:
    with database.write() as connection:
        outbox.add(connection, action.event(), now)
