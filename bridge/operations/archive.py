"""
What retention removes, written down first: JSON lines, compressed, readable by their owner only.

Each batch is whole and on disk before its rows go. It holds patient data, as the messages did.
"""

import base64
import gzip
import json
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from io import RawIOBase
from pathlib import Path
from typing import Any


class Archive:
    """The files of one run in a folder: `message-20261121T150000Z.jsonl.gz`."""

    def __init__(self, folder: Path, now: datetime) -> None:
        """Name the files by `now`; the folder is made when it is needed."""
        self._folder = folder
        self._stamp = now.strftime("%Y%m%dT%H%M%SZ")

    def add(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append rows of a table. Raises OSError, and nothing of them is to be forgotten then."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = self._folder / f"{table}-{self._stamp}.jsonl.gz"
        lines = "".join(json.dumps(plain(row), ensure_ascii=False) + "\n" for row in rows)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "ab", buffering=0) as end:
            before = os.fstat(descriptor).st_size
            try:
                _write(end, gzip.compress(lines.encode()))  # members of one file, one a batch
                os.fsync(descriptor)
            except OSError:  # half a member would hide those that are appended to it
                os.ftruncate(descriptor, before)
                raise
        if not before:
            _sync(self._folder)


def _write(end: RawIOBase, data: bytes) -> None:
    """Write all of it, in as many pieces as the file system takes."""
    left = memoryview(data)
    while left:
        left = left[end.write(left) or 0 :]


def _sync(folder: Path) -> None:
    """Make sure that a new file's name outlasts a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """Write bytes as text where they are UTF-8, else as `NAME_base64`."""
    told: dict[str, Any] = {}
    for name, value in row.items():
        if not isinstance(value, bytes | memoryview):
            told[name] = value
            continue
        data = bytes(value)
        try:
            told[name] = data.decode("utf-8")
        except UnicodeDecodeError:
            told[f"{name}_base64"] = base64.b64encode(data).decode("ascii")
    return told
