"""
PostgreSQL's part of `bridge.store.faults`.

Loaded with the driver, which a house on SQLite does without.
"""

import psycopg

from bridge.store.errors import Busy, Conflict, StatementRefused, StoreError, StoreUnavailable

ERRORS = psycopg.Error

# PostgreSQL error codes, appendix A of its manual; a part stands for all that begin with it.
_BUSY = {"40001", "40P01", "55P03", "57014"}
_UNAVAILABLE = ("08", "25006", "53", "57", "58", "F0", "XX")
_UNIQUE = "23505"


def without_server(error: BaseException | None) -> bool:
    """Tell whether the error ended the connection it came over."""
    if not isinstance(error, psycopg.OperationalError):
        return False
    return error.sqlstate is None or error.sqlstate.startswith(("08", "57P"))


def of_server(error: psycopg.Error) -> StoreError:
    """Translate the driver's error."""
    state = error.sqlstate
    if state is None:
        lost = isinstance(error, psycopg.OperationalError)
        return StoreUnavailable("lost") if lost else StatementRefused(type(error).__name__)
    if state == _UNIQUE:
        return Conflict(error.diag.constraint_name or state)
    if state in _BUSY:
        return Busy(state)
    if state.startswith(_UNAVAILABLE):
        return StoreUnavailable(state)
    where = (error.diag.table_name, error.diag.column_name, error.diag.constraint_name)
    return StatementRefused(state, " ".join(filter(None, where)))
