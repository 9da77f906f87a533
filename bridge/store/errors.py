"""
Errors of the database.

* StoreError
  * StoreUnavailable    disk full, I/O error, server down: retry after recovery
      * Busy            a lock or connection is not available: retry soon
      * Lost            a kept connection ended: retry at once
  * Conflict            a unique key exists
  * StatementRefused    the statement is invalid: a defect of the bridge
  * SchemaTooNew        a newer release has migrated the database
  * NotSynchronous      commits do not wait for a standby, as required
  * WrongIndexKey       the hashes were made with another secrets/index.key
  * SchemaInUse         other sessions use the tables that are to be migrated
  * UnsupportedStore    not a supported database
  * NameTaken           another process uses this node's name
  * VersionDamaged      a stored mapping version has changed since it was stored

`translate` turns errors of drivers into these. The result contains error codes and names of the
schema only: the driver's message may quote the row, and a row may identify a patient.
"""

import sqlite3
import sys
from types import ModuleType

from sqlalchemy.exc import DBAPIError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from bridge.errors import BridgeError

_FULL = "its disk is full"
_MEANINGS = {
    "53100": _FULL,
    "SQLITE_FULL": _FULL,
    "SQLITE_IOERR_SHMSIZE": _FULL,
    "SQLITE_CANTOPEN": "its file cannot be opened, or its folder cannot be written",
    "SQLITE_READONLY": "its file cannot be written",
    "SQLITE_NOTADB": "its file is not a database",
    "SQLITE_CORRUPT": "its file is damaged",
    "XX001": "its data is damaged",
    "XX002": "an index is damaged",
    "ENOSPC": _FULL,
    "EDQUOT": "its disk or the quota of its user is full",
    "EACCES": "the folder of its large messages may not be written",
    "EROFS": "its disk may not be written",
    "53300": "no connection is left",
    "lost": "no connection",
    "55P03": "another transaction holds a lock",
    "42501": "the database role lacks a privilege",
}
"""Meanings of common error codes."""


class StoreError(BridgeError):
    """The database did not execute the request; the transaction was rolled back."""


class StoreUnavailable(StoreError):
    """The database cannot store anything at the moment."""

    def __init__(self, code: str, why: str = "") -> None:
        self.code = code
        meaning = f": {_MEANINGS[code]}" if code in _MEANINGS else ""
        message = f"the database is unavailable ({code}{meaning})"
        super().__init__(f"{message}: {why}" if why else message)


class Busy(StoreUnavailable):
    """A lock or a connection was not available in time."""


class Lost(StoreUnavailable):
    """A connection that had worked before ended; whether a commit succeeded is unknown."""


class Conflict(StoreError):
    """A unique key exists; `constraint` is its name in the database."""

    def __init__(self, constraint: str) -> None:
        self.constraint = constraint
        super().__init__(f"the row exists already ({constraint})")


class StatementRefused(StoreError):
    """The database rejected a statement; `code` and `place` contain no values."""

    def __init__(self, code: str, place: str = "") -> None:
        self.code = code
        self.place = place
        meaning = f": {_MEANINGS[code]}" if code in _MEANINGS else ""
        super().__init__(f"statement refused ({' '.join(filter(None, (code, place)))}{meaning})")


class SchemaTooNew(StoreError):
    """The database has revisions that this release does not know."""

    def __init__(self, package: str, revisions: tuple[str, ...]) -> None:
        self.package = package
        self.revisions = revisions
        known = ", ".join(revisions)
        super().__init__(f"{package}: the database is at {known}, newer than this release")


class SchemaInUse(StoreError):
    """Other sessions use tables that are to be migrated; nothing was changed."""

    def __init__(self, package: str) -> None:
        super().__init__(
            f"{package}: not migrated, nothing was changed: other sessions use the tables;"
            " stop all nodes, wait until backups end, and start again"
        )


class NotSynchronous(StoreUnavailable):
    """Commits do not wait for a synchronous standby, which the settings require."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"database.require_synchronous is set, and on the server {problem}")


class WrongIndexKey(StoreError):
    """The hashes of the database were made with another key than this installation's."""

    def __init__(self) -> None:
        super().__init__(
            "secrets/index.key is not the key of this database: copy the file from another node "
            "that uses the database, or from its backup"
        )


class UnsupportedStore(StoreError):
    """The URL names no database that can store messages safely."""

    def __init__(self, dialect: str, reason: str) -> None:
        super().__init__(f"messages cannot be stored in {dialect}: {reason}")


class NameTaken(StoreError):
    """Another process uses this node's name: HOME was copied with its folder `run`."""

    def __init__(self) -> None:
        super().__init__(
            "another process has this node's name: delete the folder 'run' of a copied HOME"
        )


class VersionDamaged(StoreError):
    """A stored mapping version does not have its digest: the disk returned other bytes."""

    def __init__(self, name: str, version: str) -> None:
        super().__init__(
            f"the stored version {version} of {name} is damaged: restore the database from a backup"
        )


_ERRORS = (StatementError, PoolTimeout, sqlite3.Error)

NOT_UTF8 = "Could not decode to UTF-8"  # of a text column: its bytes have changed
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
    if extended is None and str(error).startswith(NOT_UTF8):  # the text may quote the row
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
