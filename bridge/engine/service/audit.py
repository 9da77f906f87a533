"""
The audit trail: append-only, and each event's hash covers the one before it.

Records who did what to which report, never a content, a patient's data or a secret.
Events of one transaction are appended together, so that the chain costs one look-up.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, insert, select

from bridge.engine.records.tables import metadata

EVENTS = metadata.tables["engine_audit_event"]
GENESIS = "0" * 64


class Outcome(StrEnum):
    """How the deed ended."""

    SUCCESS = "success"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Deed:
    """One event to be recorded; `details` are codes and counts."""

    action: str
    site_id: str | None = None
    report_id: str | None = None
    account_id: int | None = None
    token_id: int | None = None
    outcome: Outcome = Outcome.SUCCESS
    details: Mapping[str, Any] = field(default_factory=dict)


Serialize = Callable[[Connection, str], None]
"""`Database.serialize`: whoever holds the name commits before the next one begins."""


def record(connection: Connection, serialize: Serialize, deeds: Sequence[Deed], now: int) -> None:
    """Append deeds to the chain, in this transaction."""
    if not deeds:
        return
    serialize(connection, "engine audit")
    newest = select(EVENTS.c.hash).order_by(EVENTS.c.sequence.desc()).limit(1)
    previous = connection.execute(newest).scalar_one_or_none() or GENESIS
    rows = []
    for deed in deeds:
        row = _row(deed, now, previous)
        rows.append(row)
        previous = row["hash"]
    connection.execute(insert(EVENTS), rows)


def _row(deed: Deed, now: int, previous: str) -> dict[str, Any]:
    row: dict[str, Any] = {
        "at": now,
        "site_id": deed.site_id,
        "action": deed.action,
        "outcome": deed.outcome.value,
        "account_id": deed.account_id,
        "token_id": deed.token_id,
        "report_id": deed.report_id,
        "details": dict(deed.details),
        "previous_hash": previous,
    }
    return {**row, "hash": event_hash(row)}


def event_hash(row: Mapping[str, Any]) -> str:
    """Return the hash of an event over its members and its predecessor's hash."""
    members = {name: value for name, value in row.items() if name not in ("hash", "sequence")}
    canonical = json.dumps(members, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def first_broken(connection: Connection) -> int | None:
    """Walk the whole chain; return the sequence number where it breaks, or None."""
    previous = GENESIS
    for row in connection.execute(select(EVENTS).order_by(EVENTS.c.sequence)).mappings():
        if row["previous_hash"] != previous or row["hash"] != event_hash(dict(row)):
            return int(row["sequence"])
        previous = row["hash"]
    return None
