"""
PostgreSQL: connection settings, rows as binary arrays, and the guarantee of synchronous commits.

Arrays are encoded here because the columns' types are known; psycopg would inspect each element.
The format is PostgreSQL's `array_send` for one dimension. `driver` passes the arrays to psycopg.

With asynchronous standbys a failover loses commits that the standby had not received. Where
synchronous commits are required (`database.require_synchronous`), nothing is written, and so
nothing acknowledged, while the server's settings are weaker. An administrator may change them at
any time, so they are checked once per second before a write. The settings decide, not the standbys:
without a connected standby the server's commits wait.
"""

import hashlib
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any, Final

import sqlalchemy
from sqlalchemy import Connection, Engine, event
from sqlalchemy.engine import URL
from sqlalchemy.engine.interfaces import DBAPIConnection

from bridge.store.errors import NotSynchronous, driver_errors, translate
from bridge.store.options import LOCK_TIMEOUT, DatabaseOptions

# `reset_val` is the default for new sessions of our role. The value of this session is of no use,
# because our connections replace `off` by `on`.
_QUERY: Final = """
    SELECT (SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit'),
        current_setting('synchronous_standby_names')
"""
_INSUFFICIENT: Final = frozenset({"off", "local"})
_VALID_SECONDS: Final = 1.0  # after which the server is asked again


class SynchronousCommit:
    """The server's guarantee of synchronous commits; checked before each write, from any thread."""

    def __init__(
        self,
        connect: Callable[[], Any],
        *,
        required: bool,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        """`connect` returns a driver connection for this check alone."""
        self._connect = connect
        self._required = required
        self._timer = timer
        self._mutex = threading.Lock()
        self._driver: Any = None
        self._problem = ""
        self._checked_at = float("-inf")

    @property
    def is_required(self) -> bool:
        """Whether nothing is written without the guarantee."""
        return self._required

    def require(self) -> None:
        """Raise NotSynchronous if commits must be synchronous and are not. Blocking."""
        if not self._required:
            return
        with self._mutex:
            if not self._is_valid:
                self._check()
        if self._problem:
            raise NotSynchronous(self._problem)

    def close(self) -> None:
        """Close the connection; the next check opens another."""
        with self._mutex:
            self._close()

    @property
    def _is_valid(self) -> bool:
        return self._timer() - self._checked_at < _VALID_SECONDS

    def _check(self) -> None:
        try:
            if self._driver is None:
                self._driver = self._connect()
                self._driver.autocommit = True
            commit, standbys = self._driver.execute(_QUERY).fetchone()
        except driver_errors() as error:
            self._close()
            raise translate(error) from None
        if commit in _INSUFFICIENT:
            self._problem = f"synchronous_commit is {commit}"
        else:
            self._problem = "" if standbys.strip() else "synchronous_standby_names is empty"
        self._checked_at = self._timer()

    def _close(self) -> None:
        driver, self._driver = self._driver, None
        self._checked_at = float("-inf")
        if driver is not None:
            driver.close()


LOCK_ALL = "SELECT pg_advisory_xact_lock(k) FROM unnest(%(keys)s::bigint[]) AS k"
NOTIFY = "SELECT pg_notify(%(channel)s, %(mark)s)"
FROZEN_SECONDS = 10
"""
Seconds after which the server ends an idle transaction and releases its locks.

A stopped process, or one whose network drops packets, cannot end its transaction itself.
"""

BRIEF_SECONDS = 2
"""The same for a transaction that holds a lock for which other nodes wait."""

# The idle time-out counts between messages only. `transaction_timeout` (PostgreSQL 17) also covers
# a client that stops within a message.
LOCK_ALL_BRIEFLY = f"""
    SELECT set_config('idle_in_transaction_session_timeout', '{BRIEF_SECONDS}s', true),
        CASE WHEN current_setting('server_version_num')::int >= 170000
            THEN set_config('transaction_timeout', '{FROZEN_SECONDS}s', true) END,
        (SELECT count(pg_advisory_xact_lock(k)) FROM unnest(%(keys)s::bigint[]) AS k)
"""  # noqa: S608  # our own numbers
DISABLE_IDLE_TIMEOUT = "SET LOCAL idle_in_transaction_session_timeout = 0"

FAST_DISCONNECT_DETECTION = (
    "SET idle_session_timeout = '10s'",
    "SET tcp_keepalives_idle = 3",
    "SET tcp_keepalives_interval = 2",
    "SET tcp_keepalives_count = 3",
)
"""With these settings the server detects a lost or stopped client within 10 s."""

# SSDs: random reads cost hardly more than sequential ones, so index scans are preferred.
_SETTINGS = {
    "lock_timeout": f"{int(LOCK_TIMEOUT)}s",
    "idle_in_transaction_session_timeout": f"{FROZEN_SECONDS}s",
    "random_page_cost": "1.1",
    # How the server detects a lost client; the arguments below detect a lost server.
    "tcp_keepalives_idle": "10s",
    "tcp_keepalives_interval": "5s",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": f"{int(LOCK_TIMEOUT)}s",
}
_OPTIONS = " ".join(f"-c {name}={value}" for name, value in _SETTINGS.items())
_ARGUMENTS: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": int(LOCK_TIMEOUT * 1000),
    # A standby accepts connections and locks too, but other nodes do not see its locks.
    "target_session_attrs": "read-write",
}
# With asynchronous commits acknowledged messages could be lost.
_SYNCHRONOUS_COMMIT = """
    SELECT set_config('synchronous_commit', 'on', false)
    WHERE current_setting('synchronous_commit') = ANY(%(weak)s)
"""

ASYNCHRONOUS_COMMIT = "SET LOCAL synchronous_commit = off"
"""The commit of this transaction does not wait for the disk."""


@contextmanager
def autocommit(connection: Connection) -> Iterator[None]:
    """Run the statements of a block in autocommit mode; restore the connection afterwards."""
    driver: Any = connection.connection.driver_connection
    driver.autocommit = True
    try:
        yield
    finally:
        try:
            driver.autocommit = False
        except Exception:  # noqa: BLE001  # lost or in use: it must not be reused
            connection.invalidate()


def force_index_scans(driver: Any) -> None:
    """
    Let the statements of a hot path use indexes regardless of table statistics.

    A new table has no statistics. A cached plan with a sequential scan would stay until the first
    ANALYZE, and each batch would cost more than the last.
    """
    for method in ("seqscan", "hashjoin", "mergejoin"):
        driver.execute(f"SET enable_{method} = off")
    driver.commit()


def engine(address: URL, options: DatabaseOptions) -> Engine:
    """Create an engine whose commits are durable."""
    from bridge.store.postgresql.driver import register_dumper  # noqa: PLC0415  # loads psycopg

    register_dumper()
    # READ COMMITTED regardless of the server's default: each statement must see earlier commits.
    # No pool_use_lifo: after a server restart each dead connection would fail a transaction.
    # No pool_pre_ping: it costs a round trip for each transaction.
    created = sqlalchemy.create_engine(
        address,
        connect_args=arguments(address),
        isolation_level="READ COMMITTED",
        hide_parameters=True,
        **options.engine_arguments,
    )
    insufficient = ["off", "local"] if options.require_synchronous else ["off"]
    event.listen(created, "connect", partial(_prepare, insufficient))
    return created


def arguments(address: URL) -> dict[str, Any]:
    """Return the arguments of libpq; parameters of the URL (`?connect_timeout=3`) come first."""
    defaults = {name: value for name, value in _ARGUMENTS.items() if name not in address.query}
    options = address.query.get("options", "")
    return defaults | {
        "options": " ".join([_OPTIONS, *([options] if isinstance(options, str) else options)])
    }


def _prepare(insufficient: list[str], connection: DBAPIConnection, record: object) -> None:
    cursor = connection.cursor()
    cursor.execute(_SYNCHRONOUS_COMMIT, {"weak": insufficient})
    cursor.close()
    connection.commit()


def lock_key(name: str) -> int:
    """Return the 64-bit key of an advisory lock."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), signed=True)


_NULL = struct.pack(">i", -1)
_HEAD = struct.Struct(">iiIii")  # dimensions, null flag, element type, length, lower bound 1
_EMPTY = struct.Struct(">iiI")  # dimensions (0), null flag, element type
_SIZE = struct.Struct(">i")
_TYPES = {"bool": 16, "bytea": 17, "int8": 20, "int4": 23, "text": 25}  # fixed OIDs
_NAMES = {"bigint": "int8", "integer": "int4", "boolean": "bool"}


class BinaryArray:
    """An array in PostgreSQL's binary format."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


def _head(kind: str, values: Sequence[Any], *, nulls: bool) -> bytes:
    return _HEAD.pack(1, nulls, _TYPES[kind], len(values), 1)


def _numbers(kind: str, code: str) -> Callable[[Sequence[Any]], bytes]:
    one = struct.Struct(f">i{code}")  # length and value
    size = one.size - _SIZE.size

    def pack(values: Sequence[Any]) -> bytes:
        if None not in values:
            pairs = chain.from_iterable((size, value) for value in values)
            return _head(kind, values, nulls=False) + struct.pack(
                f">{f'i{code}' * len(values)}", *pairs
            )
        parts = [_NULL if value is None else one.pack(size, value) for value in values]
        return b"".join((_head(kind, values, nulls=True), *parts))

    return pack


def _texts(values: Sequence[str | None]) -> bytes:
    # Most values repeat.
    known = {value: _NULL if value is None else _sized(value.encode()) for value in set(values)}
    head = _head("text", values, nulls=None in known)
    return b"".join((head, *[known[value] for value in values]))


def _bytes(values: Sequence[bytes | None]) -> bytes:
    parts = [_NULL if value is None else _sized(value) for value in values]
    return b"".join((_head("bytea", values, nulls=None in values), *parts))


def _sized(data: bytes) -> bytes:
    return _SIZE.pack(len(data)) + data


_ENCODERS: Mapping[str, Callable[[Sequence[Any]], bytes]] = {
    "bigint": _numbers("int8", "q"),
    "integer": _numbers("int4", "i"),
    "boolean": _numbers("bool", "?"),
    "text": _texts,
    "bytea": _bytes,
}


def binary_arrays(types: Sequence[str], rows: Sequence[Sequence[Any]]) -> tuple[BinaryArray, ...]:
    """Encode the columns of rows; `types` are the SQL types of the columns."""
    if not rows:
        return tuple(
            BinaryArray(_EMPTY.pack(0, 0, _TYPES[_NAMES.get(kind, kind)])) for kind in types
        )
    columns = zip(*rows, strict=True)
    return tuple(
        BinaryArray(_ENCODERS[kind](column)) for kind, column in zip(types, columns, strict=True)
    )
