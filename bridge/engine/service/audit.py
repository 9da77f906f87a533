"""
The audit trail: append-only, and each event's hash covers the one before it.

Records who did what to which report, never a content, a patient's data or a secret.
Events of one transaction are appended together, so that the chain costs one look-up.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, select

from bridge.engine.records.tables import metadata
from bridge.store.answers import Answer, Words, carry
from bridge.store.inserting import inserted, insertion
from bridge.store.steps import plain, said

EVENTS = metadata.tables["engine_audit_event"]
GENESIS = "0" * 64
LOCK = "engine audit"
_PAGE = 1000
_NEWEST = plain("SELECT hash FROM engine_audit_event ORDER BY sequence DESC LIMIT 1")
_MEMBERS = (
    "at",
    "site_id",
    "action",
    "outcome",
    "account_id",
    "token_id",
    "report_id",
    "details",
    "previous_hash",
    "hash",
)
_INSERT = insertion(EVENTS, _MEMBERS)
_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode


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
    """Append deeds of one moment to the chain, in this transaction."""
    record_all(connection, serialize, [(now, deed) for deed in deeds])


def record_all(
    connection: Connection, serialize: Serialize, deeds: Sequence[tuple[int, Deed]]
) -> None:
    """Append deeds, each with its moment in milliseconds, to the chain, in this transaction."""
    if deeds:
        serialize(connection, LOCK)
        append(connection, deeds)


def append(connection: Connection, deeds: Sequence[tuple[int, Deed]]) -> None:
    """As `record_all`, in a transaction that holds `LOCK` already."""
    if deeds:
        carry(connection, appended(connection, deeds, carry(connection, newest(connection))))


def newest(connection: Connection) -> Words:
    """Give the question for the chain's end, for a transaction that holds `LOCK` by then."""
    return said(connection, _NEWEST)


def appended(connection: Connection, deeds: Sequence[tuple[int, Deed]], end: Answer) -> Words:
    """Give what appends some deeds behind the chain's end, which `newest` has asked for."""
    previous = end.scalar() or GENESIS
    rows = []
    for at, deed in deeds:
        row = _row(deed, at, previous)
        rows.append(row)
        previous = row["hash"]
    return inserted(connection, _INSERT, rows)


def _row(deed: Deed, at: int, previous: str) -> dict[str, Any]:
    row: dict[str, Any] = {
        "at": at,
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
    return hashlib.sha256(_canonical(members).encode("ascii")).hexdigest()


@dataclass(frozen=True, slots=True)
class Verdict:
    """
    What a walk along the chain found: where it breaks first (None: nowhere), and its end.

    A chain cut off at its end is still whole: who kept `head` elsewhere finds that out.
    """

    events: int
    head: str
    broken: int | None


def verify(connection: Connection) -> Verdict:
    """Walk the whole chain, a page in memory at a time."""
    previous, events = GENESIS, 0
    for row in _walk(connection):
        if row["previous_hash"] != previous or row["hash"] != event_hash(dict(row)):
            return Verdict(events, previous, int(row["sequence"]))
        previous, events = str(row["hash"]), events + 1
    return Verdict(events, previous, None)


def contains(connection: Connection, head: str) -> bool:
    """Tell whether a head that was noted at some time is still part of the chain."""
    found = connection.execute(select(EVENTS.c.sequence).where(EVENTS.c.hash == head)).first()
    return head == GENESIS or found is not None


def _walk(connection: Connection) -> Iterator[Mapping[str, Any]]:
    after = 0
    while True:
        page = (
            connection.execute(
                select(EVENTS)
                .where(EVENTS.c.sequence > after)
                .order_by(EVENTS.c.sequence)
                .limit(_PAGE)
            )
            .mappings()
            .all()
        )
        yield from page  # type: ignore[misc]  # a row's keys are the columns' names
        if len(page) < _PAGE:
            return
        after = page[-1]["sequence"]
