"""The archive: what retention deletes, written to compressed JSON lines first.

A run that died while it wrote leaves half a member, or zeros, behind the whole ones. Readers stop
there with an error, so it is cut off.

Each batch is whole and on disk before its rows go. Who died between the two leaves rows that stand
in the last batch of a run's file (`bridge.monitoring.archive`): they are not written again. It
holds patient data, as the messages did.
"""

import base64
import gzip
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from io import RawIOBase
from pathlib import Path
from typing import Any, BinaryIO, Final

from config.private_files import make_folder, open_private

FIRST_SEARCH: Final = 256 * 1024
LARGEST_SEARCH: Final = 64 * 1024 * 1024
"""Bytes at the end of a file in which its last batch is looked for: first, and at most."""

_BEGINNING: Final = b"\x1f\x8b\x08"  # of a member, RFC 1952 §2.3.1
_PIECE: Final = 1024 * 1024


def last_batch(file: Path) -> bytes:
    """
    Give what the last whole member of a file holds, and leave nothing behind it.

    A file without one goes. What is damaged otherwise stays as it is. Raises OSError.
    """
    with file.open("r+b") as opened:
        found = _find_last_member(opened)
        if found is not None:
            return found
        end, last = _scan_members(opened)
        if end is not None:
            opened.truncate(end)
            os.fsync(opened.fileno())
    if end == 0:
        file.unlink()
    return last


def _find_last_member(file: BinaryIO) -> bytes | None:
    """Give the last member, or None where something else may end the file."""
    size = file.seek(0, os.SEEK_END)
    reach = min(size, FIRST_SEARCH)
    while reach:
        file.seek(size - reach)
        end = file.read(reach)
        begin = end.rfind(_BEGINNING)
        while begin >= 0:
            member = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
            try:
                batch = member.decompress(memoryview(end)[begin:])
            except zlib.error:  # it only looked like a beginning
                begin = end.rfind(_BEGINNING, 0, begin)
            else:
                return batch if member.eof and not member.unused_data else None
        if reach == min(size, LARGEST_SEARCH):
            break
        reach = min(size, LARGEST_SEARCH, 4 * reach)
    return None


def _scan_members(file: BinaryIO) -> tuple[int | None, bytes]:
    """
    Go through all members; give where the last whole one ends, and what it holds.

    None for the end where what follows is neither half a member nor zeros.
    """
    size, end, last = file.seek(0, os.SEEK_END), 0, b""
    while end < size:
        file.seek(end)
        member, pieces = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16), []
        try:
            while not member.eof and (piece := file.read(_PIECE)):
                pieces.append(member.decompress(piece))
        except zlib.error:
            return (end if _only_zeros(file, end) else None), last
        if not member.eof:
            break
        end, last = file.tell() - len(member.unused_data), b"".join(pieces)
    return end, last


def _only_zeros(file: BinaryIO, begin: int) -> bool:
    file.seek(begin)
    while piece := file.read(_PIECE):
        if any(piece):
            return False
    return True


def sync_folder(folder: Path) -> None:
    """Wait until the disk has the names in a folder: those of new, renamed and removed files."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
        lines = [json.dumps(json_row(row), ensure_ascii=False) + "\n" for row in rows]
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


def json_row(row: Mapping[str, Any]) -> dict[str, Any]:
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
