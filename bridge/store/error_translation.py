"""
Translation of driver errors to `bridge.store.errors`.

The result contains error codes and names of the schema only: the driver's message may quote the
row, and a row may identify a patient.
"""

import sqlite3
import sys
from types import ModuleType

from sqlalchemy.exc import DBAPIError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from bridge.store.errors import Busy, Conflict, StatementRefused, StoreError, StoreUnavailable

_ERRORS = (StatementError, PoolTimeout, sqlite3.Error)

_NOT_UTF8 = "Could not decode to UTF-8"  # of a text column: its bytes have changed
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


def driver_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that `translate` handles; psycopg's only after psycopg was imported."""
    postgresql = _postgresql_driver()
    return (*_ERRORS, postgresql.ERRORS) if postgresql else _ERRORS


def translate(error: Exception) -> StoreError:
    """Translate an error of a driver or of SQLAlchemy."""
    cause = error.orig if isinstance(error, StatementError) else error
    if isinstance(cause, sqlite3.Error):
        return _translate_sqlite(cause)
    if isinstance(cause, PoolTimeout):
        return Busy("no connection free")
    postgresql = _postgresql_driver()
    if postgresql and isinstance(cause, postgresql.ERRORS):
        translated: StoreError = postgresql.translate(cause)
        return translated
    return StatementRefused(type(cause).__name__)


def is_connection_lost(error: Exception) -> bool:
    """Tell whether the error ended its connection."""
    if isinstance(error, DBAPIError):
        return error.connection_invalidated or _is_server_gone(error.orig)
    return _is_server_gone(error)


def _is_server_gone(error: BaseException | None) -> bool:
    postgresql = _postgresql_driver()
    return postgresql is not None and bool(postgresql.is_connection_lost(error))


def _postgresql_driver() -> ModuleType | None:
    if "psycopg" not in sys.modules:
        return None
    from bridge.store.postgresql import driver  # noqa: PLC0415  # only where psycopg is loaded

    return driver


def _translate_sqlite(error: sqlite3.Error) -> StoreError:
    extended: int | None = getattr(error, "sqlite_errorcode", None)
    if extended is None and str(error).startswith(_NOT_UTF8):  # the text may quote the row
        return StoreUnavailable("SQLITE_CORRUPT")
    if extended is None:  # raised by the sqlite3 module, not by SQLite
        return StatementRefused(type(error).__name__)
    name: str = error.sqlite_errorname
    if extended in _SQLITE_UNIQUE:
        return Conflict(str(error).rpartition(": ")[2])
    if extended & 0xFF in _SQLITE_BUSY:
        return Busy(name)
    if extended & 0xFF in _SQLITE_UNAVAILABLE:
        return StoreUnavailable(name)
    return StatementRefused(name, str(error))  # SQLite quotes names, no values
