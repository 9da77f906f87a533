"""
The code that depends on psycopg: translation of its errors, and a dumper for `BinaryArray`.

It is imported only after psycopg has been loaded. An installation on SQLite needs no psycopg.
"""

import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format
from typing_extensions import override

from bridge.store.errors import Busy, Conflict, StatementRefused, StoreError, StoreUnavailable
from bridge.store.postgresql.connection import BinaryArray

ERRORS = psycopg.Error

# SQLSTATE codes, PostgreSQL manual appendix A. `_UNAVAILABLE` also contains prefixes of codes.
_TRANSACTION_TIMEOUT = ("25P03", "25P04")
"""The server ended a transaction that was idle or open for too long, and its connection."""
_BUSY = {"40001", "40P01", "55P03", "57014", *_TRANSACTION_TIMEOUT}
_UNAVAILABLE = ("08", "25006", "53", "57", "58", "F0", "XX")
_UNIQUE_VIOLATION = "23505"
_CONNECT_FAILURES = ("connection failed", "connection timeout", "failed to resolve host")
_MAX_TEXT = 300


def is_connection_lost(error: BaseException | None) -> bool:
    """True if the error ended the connection that raised it."""
    if not isinstance(error, psycopg.OperationalError | psycopg.InternalError):
        return False
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError)
    return error.sqlstate.startswith(("08", "57P", *_TRANSACTION_TIMEOUT))


def translate(error: psycopg.Error) -> StoreError:
    state = error.sqlstate
    if state is None:
        if isinstance(error, psycopg.OperationalError):
            return StoreUnavailable("lost", _connect_failure(error))
        return StatementRefused(type(error).__name__)
    if state == _UNIQUE_VIOLATION:
        return Conflict(error.diag.constraint_name or state)
    if state in _BUSY:
        return Busy(state)
    if state.startswith(_UNAVAILABLE):
        return StoreUnavailable(state)
    where = (error.diag.table_name, error.diag.column_name, error.diag.constraint_name)
    return StatementRefused(state, " ".join(filter(None, where)))


def _connect_failure(error: psycopg.Error) -> str:
    """Return psycopg's text if no connection could be made; it contains only the address."""
    text = " ".join(str(error).split())
    if not text.startswith(_CONNECT_FAILURES):
        return ""
    return text.removeprefix("connection failed: ")[:_MAX_TEXT]


class _BinaryArrayDumper(Dumper):
    """Passes the bytes to the server; the statement's cast names their type."""

    format = Format.BINARY

    @override
    def dump(self, obj: BinaryArray) -> bytes:
        return obj.data


def register_dumper() -> None:
    """Register the dumper with psycopg. Calling it again has no effect."""
    psycopg.adapters.register_dumper(BinaryArray, _BinaryArrayDumper)
