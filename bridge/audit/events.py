"""
Audit events: the members of an event and their canonical form, which its hash covers.

An event names administrative members only: ids, e-mail addresses of users, codes and counts. It
never contains a patient's data, message text or a secret.
"""

import getpass
import hashlib
import json
import os
import re
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any, Final

GENESIS: Final = "0" * 64
"""The hash before the first event."""

FIRST_FORM, SECOND_FORM = 1, 2
"""Versions of the canonical form; new events have the second one."""
_FIRST_MEMBERS: Final = (
    *("at", "site_id", "action", "outcome", "account_id", "token_id", "report_id", "details"),
    "previous_hash",
)
_ADDED_MEMBERS: Final = (
    *("version", "actor", "origin", "source", "node", "target_type", "target_id"),
    *("before", "after", "event_id"),
)
_SECOND_MEMBERS: Final = ("sequence", *_FIRST_MEMBERS, *_ADDED_MEMBERS)
_PREVIOUS: Final = "previous_hash"
_SEQUENCE: Final = "sequence"
COLUMNS: Final = (*_SECOND_MEMBERS, "hash")
_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode


class Outcome(StrEnum):
    SUCCESS = "success"
    REFUSED = "refused"
    FAILED = "failed"


class AuditOrigin(StrEnum):
    """The interface through which an action was requested."""

    API = "api"
    APP = "app"
    CONSOLE = "console"
    CLI = "cli"
    SERVICE = "service"


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """
    One event. `actor` is an e-mail address or an operating-system user, `source` an address.

    `before` and `after` are the changed administrative members. `event_id` is unique in the trail;
    it is empty for events that are written to the chain directly.
    """

    action: str
    site_id: str | None = None
    report_id: str | None = None
    account_id: int | None = None
    token_id: int | None = None
    outcome: Outcome = Outcome.SUCCESS
    details: Mapping[str, Any] = field(default_factory=dict)
    actor: str = ""
    origin: str = AuditOrigin.SERVICE
    source: str = ""
    target: tuple[str, str] | None = None
    """Its type and its id, such as ("message", "17")."""
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    node: str = ""
    event_id: str | None = None

    def members(self, at: int) -> dict[str, Any]:
        """Return the members as the chain stores them; `at` is in milliseconds."""
        kind, identity = self.target or self._implied_target()
        return {
            "at": at,
            "site_id": self.site_id,
            "action": self.action,
            "outcome": str(self.outcome),
            "account_id": self.account_id,
            "token_id": self.token_id,
            "report_id": self.report_id,
            "details": dict(self.details),
            "version": SECOND_FORM,
            "actor": self.actor,
            "origin": str(self.origin),
            "source": self.source,
            "node": self.node or node_name(),
            "target_type": kind,
            "target_id": identity,
            "before": None if self.before is None else dict(self.before),
            "after": None if self.after is None else dict(self.after),
            "event_id": self.event_id,
        }

    def _implied_target(self) -> tuple[str, str]:
        if self.report_id:
            return "report", self.report_id
        return ("site", self.site_id) if self.site_id else ("", "")


def event_hash(row: Mapping[str, Any]) -> str:
    """Return the hash of a stored event over its members and its predecessor's hash."""
    members = _FIRST_MEMBERS if row["version"] == FIRST_FORM else _SECOND_MEMBERS
    return hashlib.sha256(_canonical({name: row[name] for name in members}).encode()).hexdigest()


def split_canonical_form(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """
    Return the canonical form of an event that has no predecessor yet, in three parts.

    The predecessor's hash and the event's own number go between the parts, because members are
    sorted by name.
    """
    members = {name: row[name] for name in _SECOND_MEMBERS if name not in (_PREVIOUS, _SEQUENCE)}
    before = {name: value for name, value in members.items() if name < _PREVIOUS}
    between = {name: value for name, value in members.items() if _PREVIOUS < name < _SEQUENCE}
    after = {name: value for name, value in members.items() if name > _SEQUENCE}
    return (
        f'{_canonical(before)[:-1]},"{_PREVIOUS}":"',
        f'",{_canonical(between)[1:-1]},"{_SEQUENCE}":',
        f",{_canonical(after)[1:]}",
    )


def is_well_formed(row: Mapping[str, Any], sequence: int) -> bool:
    """
    True if a stored event has exactly the members that its hash covers.

    `sequence` is the predecessor's. Events of the first form have none of the later members, and
    their hash does not cover their number, which has gaps on PostgreSQL.
    """
    if row["version"] == FIRST_FORM:
        return all(row[name] is None for name in _ADDED_MEMBERS if name != "version")
    return bool(row["version"] == SECOND_FORM and row["sequence"] == sequence + 1)


def code_of(error: BaseException) -> str:
    """
    Return the code of a refusal.

    An error of ours without a code has the words of its class as code (`no_such_site`). All others
    are `internal_error`: the audit trail is no place for names of the implementation, and the texts
    may quote data.
    """
    code = getattr(error, "code", "")
    if isinstance(code, str) and code:
        return code
    kind = type(error)
    if kind.__module__.partition(".")[0] in _OUR_PACKAGES:
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()
    return "internal_error"


_OUR_PACKAGES = frozenset({"bridge", "config", "mappings", "mllp", "parsers"})


@cache
def node_name() -> str:
    """Return the name of this machine."""
    return socket.gethostname()


def operator() -> str:
    """Return the operating-system user of a command."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"


def terminal() -> str:
    """Return where a command runs: the machine, the terminal if there is one, the process."""
    try:
        place = os.ttyname(sys.stdin.fileno())
    except (OSError, ValueError, AttributeError):
        place = "no tty"
    return f"{node_name()} {place} pid {os.getpid()}"


def command_event(action: str, **members: Any) -> AuditEvent:
    """Return an event of a command; `members` are further members of `AuditEvent`."""
    details = {**members.pop("details", {}), "command": operator()}
    return AuditEvent(
        action,
        details=details,
        actor=operator(),
        origin=AuditOrigin.CLI,
        source=terminal(),
        **members,
    )
