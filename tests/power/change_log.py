"""The log of a recording disk (`filesystem`): each change and each sync, in order."""

import pickle
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Change:
    """
    One entry of the log.

    `at` is the monotonic clock in nanoseconds, read after the call succeeded below and before its
    caller was answered. `file` is a number that a file keeps over renames; `path` and `target` are
    relative to the mount point.
    """

    at: int
    kind: str
    file: int = 0
    path: str = ""
    target: str = ""
    offset: int = 0
    data: bytes = b""


def changes(log: Path) -> list[Change]:
    """Read a log; an entry that was cut off at the end is left out."""
    found: list[Change] = []
    with log.open("rb") as opened:
        while True:
            try:
                at, kind, values = pickle.load(opened)  # noqa: S301 - our own file
            except (EOFError, pickle.UnpicklingError):
                return found
            found.append(Change(at, kind, **values))
