"""
Redaction: descriptions of errors and of libraries' log lines without patient data. Pure.

The message of an exception may quote the value that caused it, so only class and place are used.
"""

import re
import traceback
from pathlib import PurePath
from types import TracebackType

MAX_DEPTH = 6  # frames and causes that are included

_QUERY = re.compile(r"\?[^\s\"']*")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


def describe(error: BaseException) -> str:
    """
    Describe an error and its causes by class and place: `ValueError at apply.py:41`.

    Messages are left out. The innermost cause is last.
    """
    parts: list[str] = []
    current: BaseException | None = error
    while current is not None and len(parts) < MAX_DEPTH:
        parts.append(f"{type(current).__name__}{_place(current.__traceback__)}")
        current = current.__cause__ or (
            None if current.__suppress_context__ else current.__context__
        )
    return " from ".join(parts)


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
