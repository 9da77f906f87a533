"""PostgreSQL: connection settings, and rows as binary arrays.

No statements but those.

The driver's own way looks at every element and asks what it is; here the columns are known.
Format: PostgreSQL's `array_send`, an array of one dimension. `packed_arrays` hands it to the
driver.
"""

import hashlib
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any

import sqlalchemy
from sqlalchemy import Connection, Engine, event
from sqlalchemy.engine import URL
from sqlalchemy.engine.interfaces import DBAPIConnection

from bridge.store.options import LOCK_TIMEOUT, DatabaseOptions
from bridge.store.postgresql.synchronous_commit import SynchronousCommit

LOCK_ALL = "SELECT pg_advisory_xact_lock(k) FROM unnest(%(keys)s::bigint[]) AS k"
NOTIFY = "SELECT pg_notify(%(channel)s, %(mark)s)"
FROZEN_SECONDS = 10
"""
Seconds after which the server ends a transaction whose client says nothing, and with it its locks.

A process that is stopped, or behind a path that drops its packets, cannot end it itself.
"""

BRIEF_SECONDS = 2
"""The same for a transaction that holds a lock for which other nodes wait."""

# The server counts idle seconds between messages only: the time of the whole transaction also
# covers a client that is stopped within a message. PostgreSQL has that since version 17.
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
"""By these the server misses a host that vanished, and a process that is stopped, within 10 s."""

# A page anywhere costs hardly more than the next one, where there is no arm that moves: what is
# asked for by its keys is not found by reading a whole table.
_SETTINGS = {
    "lock_timeout": f"{int(LOCK_TIMEOUT)}s",
    "idle_in_transaction_session_timeout": f"{FROZEN_SECONDS}s",
    "random_page_cost": "1.1",
    # How the server misses us; below is how we miss the server. Neither counts on a socket file.
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
    # A standby takes connections too, and our locks: whoever it holds is seen by nobody else.
    "target_session_attrs": "read-write",
}
# A server that was told to commit lazily would make liars of our acknowledgments.
_DURABLE = """
    SELECT set_config('synchronous_commit', 'on', false)
    WHERE current_setting('synchronous_commit') = ANY(%(weak)s)
"""

ASYNCHRONOUS_COMMIT = "SET LOCAL synchronous_commit = off"
"""At its commit this transaction waits for no disk."""


@contextmanager
def autocommit(connection: Connection) -> Iterator[None]:
    """Let each statement be a transaction of its own, and give the connection back as it was."""
    driver: Any = connection.connection.driver_connection
    driver.autocommit = True
    try:
        yield
    finally:
        try:
            driver.autocommit = False
        except Exception:  # noqa: BLE001  # lost, or in the middle of something: nobody writes by it
            connection.invalidate()


class PostgreSQLTransactionStart:
    """Leaves it to psycopg, whose first statement begins; rows are locked one by one."""

    def __init__(self, synchrony: SynchronousCommit) -> None:
        self._synchrony = synchrony

    def __call__(self, cursor: Any, wait: bool) -> None:
        """See that something may be written. Raises NotSynchronous."""
        self.allow()

    def allow(self) -> None:
        """Raise NotSynchronous where nothing may be written just now."""
        self._synchrony.require()

    def restore(self, driver: Any) -> None:
        """Do nothing."""


def force_index_scans(driver: Any) -> None:
    """
    Let each statement of a hot path go by its index, whatever is known of a table's size.

    Of a new table nothing is, and a plan that reads all of it would be kept until somebody
    counts its rows: a minute, in which each batch costs more than the last.
    """
    for way in ("seqscan", "hashjoin", "mergejoin"):
        driver.execute(f"SET enable_{way} = off")
    driver.commit()


def engine(address: URL, pool: DatabaseOptions) -> Engine:
    """Make an engine whose transactions are durable when they are committed."""
    from bridge.store.postgresql.driver import register_dumper  # noqa: PLC0415  # loads psycopg

    register_dumper()
    # Whatever the server's default: each statement must see what was committed before it.
    # No pool_use_lifo: after the server cut all sessions, each dead one would fail a transaction.
    # No pool_pre_ping: it costs a round trip for each transaction.
    made = sqlalchemy.create_engine(
        address,
        connect_args=arguments(address),
        isolation_level="READ COMMITTED",
        hide_parameters=True,
        **pool.engine_arguments,
    )
    weak = ["off", "local"] if pool.require_synchronous else ["off"]
    event.listen(made, "connect", partial(_prepare, weak))
    return made


def arguments(address: URL) -> dict[str, Any]:
    """Give what libpq is told; what an address says of its own (`?connect_timeout=3`) stands."""
    said = {name: value for name, value in _ARGUMENTS.items() if name not in address.query}
    own = address.query.get("options", "")
    return said | {"options": " ".join([_OPTIONS, *([own] if isinstance(own, str) else own)])}


def _prepare(weak: list[str], connection: DBAPIConnection, record: object) -> None:
    cursor = connection.cursor()
    cursor.execute(_DURABLE, {"weak": weak})
    cursor.close()
    connection.commit()


def lock_key(name: str) -> int:
    """Give the signed 64 bits by which PostgreSQL knows a lock's name."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), signed=True)


_NULL = struct.pack(">i", -1)
_HEAD = struct.Struct(">iiIii")  # dimensions, whether there are nulls, element's type, length, 1
_EMPTY = struct.Struct(">iiI")  # no dimension, no nulls, element's type
_SIZE = struct.Struct(">i")
_TYPES = {"bool": 16, "bytea": 17, "int8": 20, "int4": 23, "text": 25}  # oid, for ever the same
_NAMES = {"bigint": "int8", "integer": "int4", "boolean": "bool"}


class BinaryArray:
    """An array that is written already."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


def _head(kind: str, values: Sequence[Any], *, nulls: bool) -> bytes:
    return _HEAD.pack(1, nulls, _TYPES[kind], len(values), 1)


def _numbers(kind: str, width: str) -> Callable[[Sequence[Any]], bytes]:
    one = struct.Struct(f">i{width}")
    size = one.size - _SIZE.size

    def pack(values: Sequence[Any]) -> bytes:
        if None not in values:
            pairs = chain.from_iterable((size, value) for value in values)
            return _head(kind, values, nulls=False) + struct.pack(
                f">{f'i{width}' * len(values)}", *pairs
            )
        parts = [_NULL if value is None else one.pack(size, value) for value in values]
        return b"".join((_head(kind, values, nulls=True), *parts))

    return pack


def _texts(values: Sequence[str | None]) -> bytes:
    # Most are the same.
    known = {value: _NULL if value is None else _sized(value.encode()) for value in set(values)}
    head = _head("text", values, nulls=None in known)
    return b"".join((head, *[known[value] for value in values]))


def _bytes(values: Sequence[bytes | None]) -> bytes:
    parts = [_NULL if value is None else _sized(value) for value in values]
    return b"".join((_head("bytea", values, nulls=None in values), *parts))


def _sized(data: bytes) -> bytes:
    return _SIZE.pack(len(data)) + data


_PACK: Mapping[str, Callable[[Sequence[Any]], bytes]] = {
    "bigint": _numbers("int8", "q"),
    "integer": _numbers("int4", "i"),
    "boolean": _numbers("bool", "?"),
    "text": _texts,
    "bytea": _bytes,
}


def binary_arrays(kinds: Sequence[str], rows: Sequence[Sequence[Any]]) -> tuple[BinaryArray, ...]:
    """Write the columns of rows whose values are of these kinds: the names of SQL types."""
    if not rows:
        return tuple(
            BinaryArray(_EMPTY.pack(0, 0, _TYPES[_NAMES.get(kind, kind)])) for kind in kinds
        )
    columns = zip(*rows, strict=True)
    return tuple(
        BinaryArray(_PACK[kind](column)) for kind, column in zip(kinds, columns, strict=True)
    )
