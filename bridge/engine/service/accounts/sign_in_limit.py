"""
The limit of sign-in attempts. It is stored in the database, so it holds on all nodes and across
restarts.

An attempt is counted before its password is hashed, in one transaction for all its buckets. A
bucket is a generic cell rate algorithm (GCRA): it stores only the moment at which it is full again.

    account and source   half of the limit: an attacker at one address leaves the rest to others
    account              the limit, over all sources
    source               the limit, over all accounts
    owner                half of the limit, for each proof that only the owner has: the cookie of a
                         browser in which they have signed in, a session, or an enrolment link
    purpose and source   the limit, for attempts that name no account: single sign-on, enrolment

An attempt with a proof counts only in the bucket `owner`, so nobody else can exhaust it. No bucket
counts all accounts and sources together, because exhausting it would lock out all users.
`bridge.engine.live.credential_checks` bounds the computation for unknown browsers.

Times are milliseconds of a clock that users cannot set: the time since boot for SQLite, which runs
on one machine, and the server's clock for PostgreSQL.
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

_BOOT_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_SERVER_TIME: Final = text("SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)")
_TAKE: Final = text("""
    INSERT INTO engine_sign_in_bucket AS b (name, full_at) VALUES (:name, :now + :cost)
    ON CONFLICT (name) DO UPDATE SET full_at = :cost + CASE
        WHEN b.full_at < :now OR b.full_at > :now + 2 * :span THEN :now ELSE b.full_at END
    WHERE b.full_at + :cost <= :now + :span OR b.full_at > :now + 2 * :span
    RETURNING name
""")
"""
Takes an attempt from a bucket; returns no row if the bucket is empty.

A `full_at` more than two spans ahead was written before the clock was reset: the bucket is full.
"""
_SELECT_FULL_AT: Final = text("SELECT full_at FROM engine_sign_in_bucket WHERE name = :name")
_GIVE_BACK: Final = text(
    "UPDATE engine_sign_in_bucket SET full_at = full_at - :cost WHERE name = :name"
)
# The rows of `_ADD_PROXY` have a `full_at` of 0 and are kept.
_FORGET: Final = text("""
    DELETE FROM engine_sign_in_bucket WHERE name IN (
        SELECT name FROM engine_sign_in_bucket
        WHERE (full_at < :past OR full_at > :future) AND full_at > 0 LIMIT 20
    )
""")

_PROXY: Final = "undeclared proxy "
_MAX_PROXIES: Final = 16
_ADD_PROXY: Final = text("""
    INSERT INTO engine_sign_in_bucket (name, full_at) SELECT :name, 0
    WHERE (SELECT count(*) FROM engine_sign_in_bucket WHERE name LIKE :pattern) < :maximum
    ON CONFLICT (name) DO NOTHING
""")
_SELECT_PROXIES: Final = text(
    "SELECT name FROM engine_sign_in_bucket WHERE name LIKE :pattern ORDER BY name"
)

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
        for bucket in attempt.buckets:
            values = {"name": bucket.name, "cost": self._cost(bucket)}
            connection.execute(_GIVE_BACK, values)

    def is_new_proxy(self, address: str) -> bool:
        """True if a proxy is new and fewer than 16 are recorded in this process."""
        return address not in self._proxies and len(self._proxies) < _MAX_PROXIES

    def record_undeclared_proxy(self, address: str) -> None:
        """Record for `bridge check` a proxy that is not in `http.trusted_proxies`."""
        row = {"name": f"{_PROXY}{address}", "pattern": f"{_PROXY}%", "maximum": _MAX_PROXIES}
        with self._database.write_without_sync() as connection:
            connection.execute(_ADD_PROXY, row)
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
    """List the addresses that `record_undeclared_proxy` has recorded on any node."""
    rows = connection.execute(_SELECT_PROXIES, {"pattern": f"{_PROXY}%"}).scalars()
    return [str(row).removeprefix(_PROXY) for row in rows]


def buckets_of_account(limit: Quota, account: str, source: str) -> tuple[Bucket, ...]:
    """Return the buckets of an attempt from an unknown browser."""
    account_digest, source_digest = _digest(account), _digest(source_of(source))
    half = max(1, limit.count // 2)
    return (
        Bucket(f"account {account_digest} source {source_digest}", half),
        Bucket(f"account {account_digest}", limit.count),
        Bucket(f"source {source_digest}", limit.count),
    )


def buckets_of_owner(limit: Quota, proof: str) -> tuple[Bucket, ...]:
    return (Bucket(f"owner {_digest(proof)}", max(1, limit.count // 2)),)


def buckets_of_source(limit: Quota, purpose: str, source: str) -> tuple[Bucket, ...]:
    return (Bucket(f"{purpose} {_digest(source_of(source))}", limit.count),)


def _digest(value: str) -> str:
    """Hash an address or a proof, so that the table contains neither."""
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _since_boot(_: Connection) -> int:
    return time.clock_gettime_ns(_BOOT_CLOCK) // 1_000_000


def _of_server(connection: Connection) -> int:
    return int(connection.execute(_SERVER_TIME).scalar_one())
