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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import BigInteger, Connection, case, cast, delete, func, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from bridge.engine.records.tables import SignInBucket, metadata
from bridge.network_source import source_of
from bridge.quotas import Quota
from bridge.store.database import Database

_BOOT_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_SERVER_TIME: Final = select(cast(func.extract("epoch", func.clock_timestamp()) * 1000, BigInteger))
_BUCKETS: Final = metadata.tables[str(SignInBucket.__tablename__)]
_FULL_AT: Final = _BUCKETS.c.full_at
_INSERT: Final[Mapping[str, Any]] = {
    "sqlite": sqlite.insert(_BUCKETS),
    "postgresql": postgresql.insert(_BUCKETS),
}
_PROXY: Final = "undeclared proxy "
_MAX_PROXIES: Final = 16
_PROXIES: Final = _BUCKETS.c.name.startswith(_PROXY)

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
        wanted = tuple(sorted(buckets, key=lambda bucket: bucket.name))
        if self._limit.count <= 0:
            return SignInAttempt(())
        with self._database.read() as connection:
            if any(self._is_empty(connection, bucket) for bucket in wanted):
                return None  # refused attempts write nothing
        try:
            with self._database.write_without_sync() as connection:
                for bucket in wanted:
                    self._take(connection, bucket)
        except _Denied:
            return None
        return SignInAttempt(wanted)

    def give_back(self, connection: Connection, attempt: SignInAttempt) -> None:
        """Remove a successful attempt from the count."""
        for bucket in attempt.buckets:
            own = update(_BUCKETS).where(_BUCKETS.c.name == bucket.name)
            connection.execute(own.values(full_at=_FULL_AT - self._cost(bucket)))

    def is_new_proxy(self, address: str) -> bool:
        """True if a proxy is new and fewer than 16 are recorded in this process."""
        return address not in self._proxies and len(self._proxies) < _MAX_PROXIES

    def record_undeclared_proxy(self, address: str) -> None:
        """Record for `bridge check` a proxy that is not in `http.trusted_proxies`."""
        with self._database.write_without_sync() as connection:
            if len(undeclared_proxies(connection)) < _MAX_PROXIES:
                row = _INSERT[connection.dialect.name].values(name=f"{_PROXY}{address}", full_at=0)
                connection.execute(row.on_conflict_do_nothing())
        self._proxies.add(address)

    def _take(self, connection: Connection, bucket: Bucket) -> None:
        now, span, cost = self.moment(connection), self._limit.seconds * 1000, self._cost(bucket)
        # Written before the clock was reset: the bucket is full.
        is_reset = now + 2 * span < _FULL_AT
        # The rows of proxies have a `full_at` of 0 and are kept.
        old = select(_BUCKETS.c.name).where(or_(now > _FULL_AT, is_reset), _FULL_AT > 0).limit(20)
        connection.execute(delete(_BUCKETS).where(_BUCKETS.c.name.in_(old)))
        take = (
            _INSERT[connection.dialect.name]
            .values(name=bucket.name, full_at=now + cost)
            .on_conflict_do_update(
                index_elements=[_BUCKETS.c.name],
                set_={"full_at": cost + case((or_(now > _FULL_AT, is_reset), now), else_=_FULL_AT)},
                where=or_(_FULL_AT + cost <= now + span, is_reset),
            )
            .returning(_BUCKETS.c.name)
        )
        if connection.execute(take).first() is None:
            raise _Denied

    def _is_empty(self, connection: Connection, bucket: Bucket) -> bool:
        query = select(_FULL_AT).where(_BUCKETS.c.name == bucket.name)
        full_at = connection.execute(query).scalar_one_or_none()
        if full_at is None:
            return False
        now, span = self.moment(connection), self._limit.seconds * 1000
        return bool(now + span - self._cost(bucket) < full_at <= now + 2 * span)

    def _cost(self, bucket: Bucket) -> int:
        return self._limit.seconds * 1000 // bucket.count


def undeclared_proxies(connection: Connection) -> list[str]:
    """List the addresses that `record_undeclared_proxy` has recorded on any node."""
    names = connection.execute(
        select(_BUCKETS.c.name).where(_PROXIES).order_by(_BUCKETS.c.name)
    ).scalars()
    return [name.removeprefix(_PROXY) for name in names]


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
