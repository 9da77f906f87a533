"""
The limit of sign-in attempts. It is stored in the database, so it holds on all nodes and across
restarts.

An attempt is counted before its password is hashed, in one transaction for all its buckets. A
bucket is a generic cell rate algorithm (GCRA): it stores only the moment at which it is full again.

    account and source   half of the limit: an attacker at one address leaves the rest to others
    account              the limit, over all sources
    source               the limit, over all accounts
    device               half of the limit, for a browser in which the owner has signed in before

An attempt of a known device counts only in its own bucket, so nobody else can exhaust it. No bucket
counts all accounts and sources together, because exhausting it would lock out all users.
`bridge.engine.live.credential_checks` bounds the computation for unknown browsers.

The clock cannot be set by users: the time since boot for SQLite, which runs on one machine, and the
server's clock for PostgreSQL.
"""

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, text

from bridge.engine.settings import Quota
from bridge.network_source import source_of
from bridge.store.database import Database

_BOOT: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_SERVER: Final = text("SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)")
_TAKE: Final = text("""
    INSERT INTO engine_sign_in_bucket AS b (name, full_at) VALUES (:name, :now + :cost)
    ON CONFLICT (name) DO UPDATE SET full_at = :cost + CASE
        WHEN b.full_at < :now OR b.full_at > :now + 2 * :span THEN :now ELSE b.full_at END
    WHERE b.full_at + :cost <= :now + :span OR b.full_at > :now + 2 * :span
    RETURNING name
""")
"""
Takes an attempt from a bucket.

A bucket that is full only far in the future was filled before the clock was reset.
"""
_SELECT_FULL_AT: Final = text("SELECT full_at FROM engine_sign_in_bucket WHERE name = :name")
_GIVE_BACK: Final = text(
    "UPDATE engine_sign_in_bucket SET full_at = full_at - :cost WHERE name = :name"
)
_FORGET: Final = text("""
    DELETE FROM engine_sign_in_bucket WHERE name IN (
        SELECT name FROM engine_sign_in_bucket
        WHERE (full_at < :past OR full_at > :future) AND full_at > 0 LIMIT 20
    )
""")

_PROXY: Final = "undeclared proxy "
_MAX_PROXIES: Final = 16
_NOTE: Final = text("""
    INSERT INTO engine_sign_in_bucket (name, full_at) SELECT :name, 0
    WHERE (SELECT count(*) FROM engine_sign_in_bucket WHERE name LIKE :every) < :most
    ON CONFLICT (name) DO NOTHING
""")
_NOTED: Final = text("SELECT name FROM engine_sign_in_bucket WHERE name LIKE :every ORDER BY name")

Moment = Callable[[Connection], int]


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket, and how many attempts it allows within the span of the limit."""

    name: str
    count: int


@dataclass(frozen=True, slots=True)
class SignInAttempt:
    """A counted attempt. A successful attempt is removed from the count."""

    buckets: tuple[Bucket, ...]


class _Denied(Exception):
    """A bucket is empty: the attempt is refused and not counted."""


class SignInLimiter:
    """Counts attempts. Blocking: call it from a thread."""

    def __init__(self, database: Database, limit: Quota) -> None:
        self._database = database
        self._limit = limit
        self._proxies: set[str] = set()
        self.moment: Moment = _since_boot if database.dialect == "sqlite" else _of_server

    def take(self, buckets: Sequence[Bucket]) -> SignInAttempt | None:
        """Count an attempt in all its buckets; None if one of them is empty."""
        wanted = tuple(sorted(buckets, key=lambda each: each.name))
        if self._limit.count <= 0:
            return SignInAttempt(())
        with self._database.read() as connection:
            if any(self._is_empty(connection, each) for each in wanted):
                return None  # refused attempts write nothing
        try:
            with self._database.write_without_sync() as connection:
                for each in wanted:
                    self._take(connection, each)
        except _Denied:
            return None
        return SignInAttempt(wanted)

    def give_back(self, connection: Connection, attempt: SignInAttempt) -> None:
        """Remove a successful attempt from the count."""
        for each in attempt.buckets:
            values = {"name": each.name, "cost": self._cost(each)}
            connection.execute(_GIVE_BACK, values)

    def is_new_proxy(self, address: str) -> bool:
        """Tell whether a proxy is new and fewer than 16 are recorded in this process."""
        return address not in self._proxies and len(self._proxies) < _MAX_PROXIES

    def note_undeclared_proxy(self, address: str) -> None:
        """Record for `bridge check` that clients behind an untrusted proxy share one address."""
        row = {"name": f"{_PROXY}{address}", "every": f"{_PROXY}%", "most": _MAX_PROXIES}
        with self._database.write_without_sync() as connection:
            connection.execute(_NOTE, row)
        self._proxies.add(address)

    def _take(self, connection: Connection, bucket: Bucket) -> None:
        now = self.moment(connection)
        span = self._limit.seconds * 1000
        connection.execute(_FORGET, {"past": now, "future": now + 2 * span})
        values = {"name": bucket.name, "now": now, "cost": self._cost(bucket), "span": span}
        if connection.execute(_TAKE, values).first() is None:
            raise _Denied

    def _is_empty(self, connection: Connection, bucket: Bucket) -> bool:
        full_at = connection.execute(_SELECT_FULL_AT, {"name": bucket.name}).scalar_one_or_none()
        if full_at is None:
            return False
        now, span = self.moment(connection), self._limit.seconds * 1000
        return bool(now + span - self._cost(bucket) < full_at <= now + 2 * span)

    def _cost(self, bucket: Bucket) -> int:
        return self._limit.seconds * 1000 // bucket.count


def undeclared_proxies(connection: Connection) -> list[str]:
    """List the addresses of untrusted proxies that forwarded a request."""
    rows = connection.execute(_NOTED, {"every": f"{_PROXY}%"}).scalars()
    return [str(each).removeprefix(_PROXY) for each in rows]


def attempt_of(limit: Quota, account: str, source: str) -> tuple[Bucket, ...]:
    """Return the buckets of an attempt from an unknown browser."""
    account_digest, source_digest = _digest(account), _digest(source_of(source))
    half = max(1, limit.count // 2)
    return (
        Bucket(f"account {account_digest} source {source_digest}", half),
        Bucket(f"account {account_digest}", limit.count),
        Bucket(f"source {source_digest}", limit.count),
    )


def attempt_of_owner(limit: Quota, proof: str) -> tuple[Bucket, ...]:
    """Return the buckets of an attempt with a proof that only the owner has: device or session."""
    return (Bucket(f"owner {_digest(proof)}", max(1, limit.count // 2)),)


def attempt_of_source(limit: Quota, purpose: str, source: str) -> tuple[Bucket, ...]:
    """Return the buckets of an attempt that names no account."""
    return (Bucket(f"{purpose} {_digest(source_of(source))}", limit.count),)


def _digest(value: str) -> str:
    """Hash an address, so that the table contains no addresses of persons."""
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _since_boot(_: Connection) -> int:
    return time.clock_gettime_ns(_BOOT) // 1_000_000


def _of_server(connection: Connection) -> int:
    return int(connection.execute(_SERVER).scalar_one())
