"""
Redaction: descriptions of errors and of libraries' log lines without patient data. Pure.

The message of an exception may quote the value that caused it, so only class and place are used.
"""

import re
import traceback
from pathlib import PurePath
from types import TracebackType

from bridge.errors import BridgeError

MAX_DEPTH = 6  # frames and causes that are included

_CODE = re.compile(r"SQLITE_[A-Z_]{2,40}|[0-9A-Z]{5}")  # of SQLite, or an SQLSTATE
_QUERY = re.compile(r"\?[^\s\"']*")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


def describe(error: BaseException) -> str:
    """
    Describe an error and its causes by class and place: `ValueError at apply.py:41`.

    Messages are left out. An error of the database has its code: `StoreUnavailable SQLITE_FULL at
    database.py:9`. The innermost cause is last.
    """
    parts: list[str] = []
    current: BaseException | None = error
    while current is not None and len(parts) < MAX_DEPTH:
        parts.append(f"{_name(current)}{_place(current.__traceback__)}")
        current = current.__cause__ or (
            None if current.__suppress_context__ else current.__context__
        )
    return " from ".join(parts)


def _name(error: BaseException) -> str:
    """Return the class, and the code of a database's error; an engine may send any text as one."""
    code = str(getattr(error, "code", "")) if isinstance(error, BridgeError) else ""
    return f"{type(error).__name__} {code}" if _CODE.fullmatch(code) else type(error).__name__


def _place(trace: TracebackType | None) -> str:
    frames = traceback.extract_tb(trace)
    if not frames:
        return ""
    return f" at {PurePath(frames[-1].filename).name}:{frames[-1].lineno}"


def stack_frames(error: BaseException) -> list[str]:
    """List the innermost frames of an error as `file:line in function`."""
    return [
        f"{PurePath(frame.filename).name}:{frame.lineno} in {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)[-MAX_DEPTH:]
    ]


def safe_text(text: str) -> str:
    """Remove query strings and quoted parts from a library's log line."""
    return _QUOTED.sub("'…'", _QUERY.sub("?…", text))
