"""
Read a driver's error as one of ours.

The result bears codes and names of our schema only: what a driver says in words may quote the
row, and a row may name a patient.
"""

import sqlite3

import psycopg
from sqlalchemy.exc import DBAPIError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from bridge.store.errors import Busy, Conflict, StatementRefused, StoreError, StoreUnavailable

DRIVER_ERRORS = (StatementError, PoolTimeout, sqlite3.Error, psycopg.Error)
"""What `fault` understands."""

_SQLITE_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_SQLITE_UNAVAILABLE = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_PROTOCOL,
}
_SQLITE_UNIQUE = {
    sqlite3.SQLITE_CONSTRAINT_UNIQUE,
    sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY,
    sqlite3.SQLITE_CONSTRAINT_ROWID,
}

# PostgreSQL error codes, appendix A of its manual; a part stands for all that begin with it.
_POSTGRES_BUSY = {"40001", "40P01", "55P03", "57014"}
_POSTGRES_UNAVAILABLE = ("08", "25006", "53", "57", "58", "F0", "XX")
_POSTGRES_UNIQUE = "23505"


def fault(error: Exception) -> StoreError:
    """Translate a driver's or SQLAlchemy's error."""
    cause = error.orig if isinstance(error, StatementError) else error
    if isinstance(cause, sqlite3.Error):
        return _of_sqlite(cause)
    if isinstance(cause, psycopg.Error):
        return _of_postgres(cause)
    if isinstance(cause, PoolTimeout):
        return Busy("no connection free")
    return StatementRefused(type(cause).__name__)


def lost_connection(error: Exception) -> bool:
    """Tell whether the error ended the connection it came over."""
    if isinstance(error, DBAPIError):
        return error.connection_invalidated or _without_server(error.orig)
    return _without_server(error)


def _without_server(error: BaseException | None) -> bool:
    if not isinstance(error, psycopg.OperationalError):
        return False
    return error.sqlstate is None or error.sqlstate.startswith(("08", "57P"))


def _of_sqlite(error: sqlite3.Error) -> StoreError:
    extended: int | None = getattr(error, "sqlite_errorcode", None)
    if extended is None:  # raised by the Python module, not by the library
        return StatementRefused(type(error).__name__)
    name: str = error.sqlite_errorname
    if extended in _SQLITE_UNIQUE:
        return Conflict(str(error).rpartition(": ")[2])
    if extended & 0xFF in _SQLITE_BUSY:
        return Busy(name)
    if extended & 0xFF in _SQLITE_UNAVAILABLE:
        return StoreUnavailable(name)
    return StatementRefused(name, str(error))  # SQLite quotes names and our own text, no values


def _of_postgres(error: psycopg.Error) -> StoreError:
    state = error.sqlstate
    if state is None:
        lost = isinstance(error, psycopg.OperationalError)
        return StoreUnavailable("lost") if lost else StatementRefused(type(error).__name__)
    if state == _POSTGRES_UNIQUE:
        return Conflict(error.diag.constraint_name or state)
    if state in _POSTGRES_BUSY:
        return Busy(state)
    if state.startswith(_POSTGRES_UNAVAILABLE):
        return StoreUnavailable(state)
    where = (error.diag.table_name, error.diag.column_name, error.diag.constraint_name)
    return StatementRefused(state, " ".join(filter(None, where)))
