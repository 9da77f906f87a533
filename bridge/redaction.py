"""
What of an error or a foreign log line may be shown: classes and places, never its words.

Pure. A library's message often quotes what it choked on, and here that is a patient.
"""

import re
import traceback
from pathlib import PurePath
from types import TracebackType

MAX_DEPTH = 6  # frames and causes that are told

_QUERY = re.compile(r"\?[^\s\"']*")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


def describe(error: BaseException) -> str:
    """
    Name an error and its causes by class, with the place of each: `ValueError at apply.py:41`.

    The messages are left out. Three or so causes deep, innermost last.
    """
    told: list[str] = []
    current: BaseException | None = error
    while current is not None and len(told) < MAX_DEPTH:
        told.append(f"{type(current).__name__}{_place(current.__traceback__)}")
        current = current.__cause__ or (
            None if current.__suppress_context__ else current.__context__
        )
    return " from ".join(told)


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
    """Strip a foreign log line of query strings and of everything in quotation marks."""
    return _QUOTED.sub("'…'", _QUERY.sub("?…", text))
