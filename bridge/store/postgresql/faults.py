"""PostgreSQL's part of `bridge.store.faults`.

Loaded with the driver, which a house on SQLite does without.
"""

import psycopg

from bridge.store.errors import Busy, Conflict, StatementRefused, StoreError, StoreUnavailable

ERRORS = psycopg.Error

# PostgreSQL error codes, appendix A of its manual; a part stands for all that begin with it.
_CUT = ("25P03", "25P04")
"""A transaction that paused too long: the server ended it and its connection, nothing was kept."""
_BUSY = {"40001", "40P01", "55P03", "57014", *_CUT}
_UNAVAILABLE = ("08", "25006", *_CUT, "53", "57", "58", "F0", "XX")
_UNIQUE = "23505"
_NEVER_MADE = ("connection failed", "connection timeout", "failed to resolve host")
_LONGEST = 300


def without_server(error: BaseException | None) -> bool:
    """Tell whether the error ended the connection it came over."""
    if not isinstance(error, psycopg.OperationalError | psycopg.InternalError):
        return False
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError)
    return error.sqlstate.startswith(("08", "57P", *_CUT))


def of_server(error: psycopg.Error) -> StoreError:
    """Translate the driver's error."""
    state = error.sqlstate
    if state is None:
        lost = isinstance(error, psycopg.OperationalError)
        if lost:
            return StoreUnavailable("lost", _never_made(error))
        return StatementRefused(type(error).__name__)
    if state == _UNIQUE:
        return Conflict(error.diag.constraint_name or state)
    if state in _BUSY:
        return Busy(state)
    if state.startswith(_UNAVAILABLE):
        return StoreUnavailable(state)
    where = (error.diag.table_name, error.diag.column_name, error.diag.constraint_name)
    return StatementRefused(state, " ".join(filter(None, where)))


def _never_made(error: psycopg.Error) -> str:
    """Give the driver's words where no connection came about: they quote the address alone."""
    said = " ".join(str(error).split())
    beginning = next((each for each in _NEVER_MADE if said.startswith(each)), None)
    if beginning is None:
        return ""
    return said.removeprefix("connection failed: ")[:_LONGEST]
