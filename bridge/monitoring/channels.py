"""
Channels: the state of listeners and destinations for operators, stored in the database. Blocking.

Because the state is in the database, a pause applies on every node and after restarts. A start
failure is valid as long as its node renews it.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, case, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert

from bridge.audit.outbox import describe
from bridge.handshake_counts import MAX_ENTRIES, HandshakeCount, HandshakeKey
from bridge.store.database import Database
from bridge.store.tables import CHANNELS, HANDSHAKE_FAILURES, START_FAILURES, upsert
from config.sections import ChannelKind

LOADED_VALID_MS = 30_000  # ms
"""Nodes renew the entries for loaded channels more often."""


@dataclass(frozen=True, slots=True)
class Channel:
    """One listener or destination; times in ms or None."""

    name: str
    paused_at: int | None = None
    paused_by: str = ""
    active_at: int | None = None
    open_until: int | None = None
    """The end of the circuit breaker's pause, for a destination that does not respond."""
    refused: int = 0
    """Refusals since the last accepted message, for a destination."""
    loaded_at: int | None = None
    """When a node last noted that it has loaded the channel."""
    problem_code: str = ""
    problem: str = ""
    """Why a destination gave no usable reply to the last attempt, in words."""

    @property
    def paused(self) -> bool:
        """Whether an operator or the reply policy paused the channel."""
        return self.paused_at is not None

    def is_loaded(self, now: int) -> bool:
        """Whether a running node has loaded the channel; `now` in ms."""
        return self.loaded_at is not None and now - self.loaded_at < LOADED_VALID_MS


_CHANNEL = CHANNELS.c


def pause(database: Database, kind: ChannelKind, name: str, now: int, by: str) -> None:
    """Pause a channel; a paused one keeps the time and the author of its pause."""
    with database.write() as connection:
        _describe(connection, kind, name, paused=True)
        is_running = _CHANNEL.paused_at.is_(None)
        connection.execute(
            insert(CHANNELS)
            .values(kind=kind.value, name=name, paused_at=now, paused_by=by)
            .on_conflict_do_update(
                index_elements=[_CHANNEL.kind, _CHANNEL.name],
                set_={
                    "paused_at": func.coalesce(_CHANNEL.paused_at, now),
                    "paused_by": case((is_running, by), else_=_CHANNEL.paused_by),
                },
            )
        )


def resume(database: Database, kind: ChannelKind, name: str) -> bool:
    """Resume a channel; return whether it was paused."""
    with database.write() as connection:
        _describe(connection, kind, name, paused=False)
        paused = update(CHANNELS).where(*_is_paused(kind, name))
        return connection.execute(paused.values(paused_at=None, paused_by="")).rowcount > 0


def _is_paused(kind: ChannelKind, name: str) -> tuple[ColumnElement[bool], ...]:
    return _CHANNEL.kind == kind.value, _CHANNEL.name == name, _CHANNEL.paused_at.is_not(None)


def _describe(connection: Connection, kind: ChannelKind, name: str, *, paused: bool) -> None:
    """Add the state before and after to the audit event of the action in progress."""
    found = connection.execute(select(_CHANNEL.name).where(*_is_paused(kind, name))).first()
    describe(before={"paused": found is not None}, after={"paused": paused})


def store_activity(database: Database, active: Mapping[tuple[ChannelKind, str], int]) -> None:
    """Store when channels were last active; the latest time of all nodes counts."""
    rows = [
        {"kind": kind.value, "name": name, "active_at": at} for (kind, name), at in active.items()
    ]
    if rows:
        statement = insert(CHANNELS)
        latest = statement.excluded.active_at
        with database.write() as connection:
            connection.execute(
                statement.on_conflict_do_update(
                    index_elements=[_CHANNEL.kind, _CHANNEL.name],
                    set_={"active_at": latest},
                    where=_CHANNEL.active_at < latest,
                ),
                rows,
            )


class ChannelCircuit(NamedTuple):
    """The circuit of a destination; `open_until` (ms) is None while it is closed."""

    open_until: int | None
    refused: int = 0
    """Refusals since the last accepted message."""
    problem_code: str = ""
    problem: str = ""
    """Why the last attempt got no usable reply, in words without message data."""


def store_circuits(database: Database, circuits: Mapping[str, ChannelCircuit]) -> None:
    rows = [
        {"kind": ChannelKind.DESTINATION.value, "name": name, **circuit._asdict()}
        for name, circuit in circuits.items()
    ]
    if rows:
        with database.write() as connection:
            connection.execute(upsert(CHANNELS, *ChannelCircuit._fields), rows)


def store_loaded(
    database: Database, kind: ChannelKind, names: Collection[str], now: int | None
) -> None:
    """Store that a node has loaded channels at `now` (ms), or None when it stops."""
    if names:
        rows = [{"kind": kind.value, "name": name, "loaded_at": now} for name in sorted(names)]
        with database.write() as connection:
            connection.execute(upsert(CHANNELS, "loaded_at"), rows)


def read_channels(database: Database, kind: ChannelKind) -> dict[str, Channel]:
    with database.read_committed() as connection:
        rows = connection.execute(select(CHANNELS).where(_CHANNEL.kind == kind.value)).all()
    return {
        row.name: Channel(
            row.name,
            row.paused_at,
            row.paused_by,
            row.active_at or None,
            row.open_until,
            row.refused,
            row.loaded_at,
            row.problem_code,
            row.problem,
        )
        for row in rows
    }


START_FAILURES_VALID_MS = 60_000
"""Nodes renew their start failures more often."""

_FAILURE = START_FAILURES.c


def store_start_failures(
    database: Database, kind: str, node: str, reasons: Mapping[str, str], now: int
) -> None:
    """Store the reasons why channels did not start on a node, by name; `now` in ms."""
    own = (_FAILURE.kind == str(kind), _FAILURE.node == node)
    rows = [
        {"kind": str(kind), "node": node, "name": name, "reason": reason, "at": now}
        for name, reason in reasons.items()
    ]
    with database.write() as connection:
        connection.execute(delete(START_FAILURES).where(*own))
        if rows:
            connection.execute(insert(START_FAILURES), rows)


def read_start_failures(database: Database, kind: str, now: int) -> dict[str, str]:
    """Return the reason of one node for each channel that did not start; `now` in ms."""
    valid = (_FAILURE.kind == str(kind), _FAILURE.at > now - START_FAILURES_VALID_MS)
    failures = select(START_FAILURES).where(*valid).order_by(_FAILURE.name, _FAILURE.reason)
    with database.read() as connection:
        rows = connection.execute(failures).all()
    return {row.name: row.reason for row in rows}


HOUR = 3_600_000  # ms

_HANDSHAKE = HANDSHAKE_FAILURES.c


@dataclass(frozen=True, slots=True)
class StoredHandshake:
    """
    Failed handshakes of one peer for one reason; times in ms.

    `count` counts those that followed one another within an hour each.
    """

    kind: str
    name: str
    peer: str
    reason: str
    subject: str
    is_trouble: bool
    count: int
    first_at: int
    last_at: int


def store_handshakes(
    database: Database, node: str, counts: Mapping[HandshakeKey, HandshakeCount]
) -> None:
    rows = [
        {
            **key._asdict(),
            "node": node,
            "subject": found.failure.subject,
            "is_trouble": int(found.failure.is_trouble),
            "count": found.count,
            "first_at": found.first_at,
            "last_at": found.last_at,
        }
        for key, found in sorted(counts.items())
    ]
    if not rows:
        return
    statement = insert(HANDSHAKE_FAILURES)
    new = statement.excluded
    is_over = _HANDSHAKE.last_at < new.last_at - HOUR
    added = statement.on_conflict_do_update(
        index_elements=[*HANDSHAKE_FAILURES.primary_key],
        set_={
            "count": case((is_over, new.count), else_=_HANDSHAKE.count + new.count),
            "first_at": case((is_over, new.first_at), else_=_HANDSHAKE.first_at),
            "subject": new.subject,
            "last_at": new.last_at,
        },
    )
    with database.write() as connection:
        connection.execute(added, rows)
        for kind, name in sorted({(key.kind, key.name) for key in counts}):
            own = (_HANDSHAKE.kind == kind, _HANDSHAKE.name == name)
            newest_first = (
                select(_HANDSHAKE.last_at).where(*own).order_by(_HANDSHAKE.last_at.desc())
            )
            oldest_kept = newest_first.limit(1).offset(MAX_ENTRIES - 1).scalar_subquery()
            connection.execute(
                delete(HANDSHAKE_FAILURES).where(*own, _HANDSHAKE.last_at < oldest_kept)
            )


def read_handshakes(database: Database) -> list[StoredHandshake]:
    """Return all stored failures, newest first."""
    with database.read() as connection:
        columns = [_HANDSHAKE[name] for name in StoredHandshake.__slots__]
        rows = connection.execute(select(*columns).order_by(_HANDSHAKE.last_at.desc())).mappings()
        return [StoredHandshake(**{**row, "is_trouble": bool(row["is_trouble"])}) for row in rows]


def newest_handshakes(database: Database, kind: str) -> dict[str, list[dict[str, Any]]]:
    """Return the failures of listeners or destinations by name, newest first."""
    found: dict[str, list[dict[str, Any]]] = {}
    for failure in read_handshakes(database):
        if failure.kind == kind:
            found.setdefault(failure.name, []).append(asdict(failure))
    return found
