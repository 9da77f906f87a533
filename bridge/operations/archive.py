"""
What retention removes, written down first: JSON lines, compressed, readable by their owner only.

Each batch is whole and on disk before its rows go. Who died between the two leaves rows that stand
in the last batch of a run's file (`bridge.operations.batches`): they are not written again. It
holds patient data, as the messages did.
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

from bridge.operations.batches import last_batch
from bridge.store.folders import sync_folder
from config.private_files import make_folder, open_private

_RUNS = 4  # that may have died one after the other, each with rows of its own in hand
_ENDING = ".jsonl.gz"


class Archive:
    """The files of one run in a folder: `message-20261121T150000Z.jsonl.gz`."""

    def __init__(self, folder: Path, now: datetime) -> None:
        """
        Name the files by `now`; the folder is made when it is needed.

        Where the clock went back, the newest file there is goes on: names tell the order of runs.
        """
        self._folder = folder
        self._now = now.strftime("%Y%m%dT%H%M%SZ")
        self._files: dict[str, Path] = {}
        self._written: dict[str, frozenset[str]] = {}

    def add(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """
        Append rows of a table, but for those that the run before wrote last.

        Raises OSError, and nothing of them is to be forgotten then.
        """
        make_folder(self._folder)
        lines = [json.dumps(plain(row), ensure_ascii=False) + "\n" for row in rows]
        if table not in self._written:
            self._written[table] = last_lines(self._folder, table)
            own = self._folder / f"{table}-{self._now}{_ENDING}"
            self._files[table] = max([own, *_runs(self._folder, table)])
        if new := [line for line in lines if line not in self._written[table]]:
            self._append(table, "".join(new))

    def _append(self, table: str, lines: str) -> None:
        file = self._files[table]
        descriptor = open_private(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        with os.fdopen(descriptor, "ab", buffering=0) as end:
            before = os.fstat(descriptor).st_size
            try:
                _write(end, gzip.compress(lines.encode()))  # members of one file, one a batch
                os.fsync(descriptor)
            except OSError as error:  # half a member would hide those that are appended to it
                os.ftruncate(descriptor, before)
                raise OSError(error.errno, error.strerror, str(file)) from error
        if not before:
            sync_folder(self._folder)


def last_lines(folder: Path, table: str) -> frozenset[str]:
    """
    Give the lines of the last batches of a table's newest files; none where it has none.

    What a run left half written is cut off first: its rows are all still there.
    """
    batches = [last_batch(file) for file in _runs(folder, table)[-_RUNS:]]
    return frozenset(line for each in batches for line in each.decode().splitlines(keepends=True))


def _runs(folder: Path, table: str) -> list[Path]:
    return sorted(folder.glob(f"{table}-*{_ENDING}"))


def _write(end: RawIOBase, data: bytes) -> None:
    """Write all of it, in as many pieces as the file system takes."""
    left = memoryview(data)
    while left:
        left = left[end.write(left) or 0 :]


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
