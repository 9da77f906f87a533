"""
Channels: the state of listeners and destinations for operators, stored in the database. Blocking.

Because the state is in the database, a pause applies on every node and after restarts. A start
failure is valid as long as its node renews it.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, text

from bridge.audit.outbox import describe
from bridge.handshake_counts import MAX_ENTRIES, HandshakeCount, HandshakeKey
from bridge.store.database import Database
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


_PAUSE = text("""
    INSERT INTO channel (kind, name, paused_at, paused_by) VALUES (:kind, :name, :now, :by)
    ON CONFLICT (kind, name) DO UPDATE SET
        paused_at = coalesce(channel.paused_at, :now),
        paused_by = CASE WHEN channel.paused_at IS NULL THEN :by ELSE channel.paused_by END
""")
_RESUME = text("""
    UPDATE channel SET paused_at = NULL, paused_by = ''
    WHERE kind = :kind AND name = :name AND paused_at IS NOT NULL RETURNING name
""")
_SET_ACTIVE = text("""
    INSERT INTO channel (kind, name, active_at) VALUES (:kind, :name, :now)
    ON CONFLICT (kind, name) DO UPDATE SET active_at = :now WHERE channel.active_at < :now
""")
_SET_CIRCUIT = text("""
    INSERT INTO channel (kind, name, open_until, refused, problem_code, problem)
    VALUES (:kind, :name, :open_until, :refused, :problem_code, :problem)
    ON CONFLICT (kind, name) DO UPDATE SET open_until = :open_until, refused = :refused,
        problem_code = :problem_code, problem = :problem
""")
_SET_LOADED = text("""
    INSERT INTO channel (kind, name, loaded_at) VALUES (:kind, :name, :now)
    ON CONFLICT (kind, name) DO UPDATE SET loaded_at = :now
""")
_SELECT_PAUSED = text("""
    SELECT 1 FROM channel WHERE kind = :kind AND name = :name AND paused_at IS NOT NULL
""")
_SELECT_ALL = text("""
    SELECT name, paused_at, paused_by, active_at, open_until, refused, loaded_at, problem_code,
        problem
    FROM channel WHERE kind = :kind
""")


def pause(database: Database, kind: ChannelKind, name: str, now: int, by: str) -> None:
    """Pause a channel; a paused one keeps the time and the author of its pause."""
    with database.write() as connection:
        _describe(connection, kind, name, paused=True)
        connection.execute(_PAUSE, {"kind": kind.value, "name": name, "now": now, "by": by})


def resume(database: Database, kind: ChannelKind, name: str) -> bool:
    """Resume a channel; return whether it was paused."""
    with database.write() as connection:
        _describe(connection, kind, name, paused=False)
        return connection.execute(_RESUME, {"kind": kind.value, "name": name}).first() is not None


def _describe(connection: Connection, kind: ChannelKind, name: str, *, paused: bool) -> None:
    """Add the state before and after to the audit event of the action in progress."""
    found = connection.execute(_SELECT_PAUSED, {"kind": kind.value, "name": name}).first()
    describe(before={"paused": found is not None}, after={"paused": paused})


def store_activity(database: Database, active: Mapping[tuple[ChannelKind, str], int]) -> None:
    """Store when channels were last active; the latest time of all nodes counts."""
    rows = [{"kind": kind.value, "name": name, "now": at} for (kind, name), at in active.items()]
    if rows:
        with database.write() as connection:
            connection.execute(_SET_ACTIVE, rows)


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
            connection.execute(_SET_CIRCUIT, rows)


def store_loaded(
    database: Database, kind: ChannelKind, names: Collection[str], now: int | None
) -> None:
    """Store that a node has loaded channels at `now` (ms), or None when it stops."""
    if names:
        rows = [{"kind": kind.value, "name": name, "now": now} for name in sorted(names)]
        with database.write() as connection:
            connection.execute(_SET_LOADED, rows)


def read_channels(database: Database, kind: ChannelKind) -> dict[str, Channel]:
    with database.read() as connection:
        rows = connection.execute(_SELECT_ALL, {"kind": kind.value}).all()
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

_DELETE_START_FAILURES = text(
    "DELETE FROM channel_start_failure WHERE kind = :kind AND node = :node"
)
_ADD_START_FAILURE = text("""
    INSERT INTO channel_start_failure (kind, name, node, reason, at)
    VALUES (:kind, :name, :node, :reason, :at)
""")
_SELECT_START_FAILURES = text("""
    SELECT name, reason FROM channel_start_failure WHERE kind = :kind AND at > :after
    ORDER BY name, reason
""")


def store_start_failures(
    database: Database, kind: ChannelKind, node: str, reasons: Mapping[str, str], now: int
) -> None:
    """Store the reasons why channels did not start on a node, by name; `now` in ms."""
    own = {"kind": kind.value, "node": node}
    with database.write() as connection:
        connection.execute(_DELETE_START_FAILURES, own)
        for name, reason in reasons.items():
            row = {**own, "name": name, "reason": reason, "at": now}
            connection.execute(_ADD_START_FAILURE, row)


def read_start_failures(database: Database, kind: ChannelKind, now: int) -> dict[str, str]:
    """Return the reason of one node for each channel that did not start; `now` in ms."""
    after = now - START_FAILURES_VALID_MS
    with database.read() as connection:
        rows = connection.execute(
            _SELECT_START_FAILURES, {"kind": kind.value, "after": after}
        ).all()
    return {row.name: row.reason for row in rows}


HOUR = 3_600_000  # ms

_ADD = text("""
    INSERT INTO handshake_failure
        (kind, name, node, peer, reason, subject, is_trouble, count, first_at, last_at)
    VALUES (:kind, :name, :node, :peer, :reason, :subject, :is_trouble, :count, :first_at, :last_at)
    ON CONFLICT (kind, name, node, peer, reason) DO UPDATE SET
        count = CASE WHEN handshake_failure.last_at < :last_at - :hour THEN :count
            ELSE handshake_failure.count + :count END,
        first_at = CASE WHEN handshake_failure.last_at < :last_at - :hour THEN :first_at
            ELSE handshake_failure.first_at END,
        subject = :subject, last_at = :last_at
""")
_DELETE_OLD = text("""
    DELETE FROM handshake_failure WHERE kind = :kind AND name = :name AND last_at < (
        SELECT last_at FROM handshake_failure WHERE kind = :kind AND name = :name
        ORDER BY last_at DESC LIMIT 1 OFFSET :kept
    )
""")
_SELECT = text("""
    SELECT kind, name, peer, reason, subject, is_trouble, count, first_at, last_at
    FROM handshake_failure ORDER BY last_at DESC
""")


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
            "hour": HOUR,
        }
        for key, found in sorted(counts.items())
    ]
    if rows:
        channels = sorted({(key.kind, key.name) for key in counts})
        with database.write() as connection:
            connection.execute(_ADD, rows)
            connection.execute(
                _DELETE_OLD,
                [{"kind": kind, "name": name, "kept": MAX_ENTRIES - 1} for kind, name in channels],
            )


def read_handshakes(database: Database) -> list[StoredHandshake]:
    """Return all stored failures, newest first."""
    with database.read() as connection:
        rows = connection.execute(_SELECT).mappings().all()
    return [StoredHandshake(**{**row, "is_trouble": bool(row["is_trouble"])}) for row in rows]


def newest_handshakes(database: Database, kind: str) -> dict[str, list[dict[str, Any]]]:
    """Return the failures of listeners or destinations by name, newest first."""
    found: dict[str, list[dict[str, Any]]] = {}
    for failure in read_handshakes(database):
        if failure.kind == kind:
            found.setdefault(failure.name, []).append(asdict(failure))
    return found
