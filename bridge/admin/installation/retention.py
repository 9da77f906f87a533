"""
Retention: remove finished messages and deliveries, changes, links, sessions and stored answers.

It keeps queued and parked rows, and changes that the bridge has not read. It always keeps reports,
releases, the audit trail and the marks of deleted reports.

Rows can be archived first, in gzip files of JSON lines. Each batch is one gzip member, and is on
disk before its rows are deleted. If a process ends between the two, its rows are both in the last
batch of a file and in the database; the next run does not write them again. If a process ends while
it writes, the file ends with an incomplete member or zeros; the next run truncates them. The
archive contains patient data.
"""

import base64
import gzip
import json
import os
import time
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from io import RawIOBase
from pathlib import Path
from typing import Any, BinaryIO, Final

from sqlalchemy import func, select

from bridge import active_settings
from bridge.admin.progress import NOT_SHOWN, Report
from bridge.admin.report_engine import internal_engine
from bridge.audit import outbox
from bridge.audit.events import command_event
from bridge.queue.payload_blobs import delete_orphans
from bridge.queue.retention.policy import find_size_cutoff, prune
from bridge.store.database import Database
from bridge.store.databases import bridge_database_of
from bridge.store.records import identifier_changes, patient_records, report_events
from bridge.store.tables import FEED_CURSORS
from config import Settings
from config.private_files import make_folder, open_private, sync_folder

FIRST_SEARCH: Final = 256 * 1024
LARGEST_SEARCH: Final = 64 * 1024 * 1024
"""Bytes at the end of a file that are searched for its last batch: at first, and at most."""

_MAGIC: Final = b"\x1f\x8b\x08"  # the start of a gzip member, RFC 1952 §2.3.1
_CHUNK_BYTES: Final = 1024 * 1024


def last_batch(file: Path) -> bytes:
    """
    Return the content of the last complete member of a file; truncate an incomplete rest.

    A file without a complete member is deleted. Other damage is left as it is. Raises OSError.
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
    """Return the content of the member at the end of the file, or None if there is none."""
    size = file.seek(0, os.SEEK_END)
    searched = min(size, FIRST_SEARCH)
    while searched:
        file.seek(size - searched)
        tail = file.read(searched)
        begin = tail.rfind(_MAGIC)
        while begin >= 0:
            member = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
            try:
                batch = member.decompress(memoryview(tail)[begin:])
            except zlib.error:  # not the start of a member
                begin = tail.rfind(_MAGIC, 0, begin)
            else:
                return batch if member.eof and not member.unused_data else None
        if searched == min(size, LARGEST_SEARCH):
            break
        searched = min(size, LARGEST_SEARCH, 4 * searched)
    return None


def _scan_members(file: BinaryIO) -> tuple[int | None, bytes]:
    """
    Read all members; return the end and the content of the last complete one.

    The end is None if other data than an incomplete member or zeros follows.
    """
    size, end, last = file.seek(0, os.SEEK_END), 0, b""
    while end < size:
        file.seek(end)
        member, pieces = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16), []
        try:
            while not member.eof and (piece := file.read(_CHUNK_BYTES)):
                pieces.append(member.decompress(piece))
        except zlib.error:
            return (end if _only_zeros(file, end) else None), last
        if not member.eof:
            break
        end, last = file.tell() - len(member.unused_data), b"".join(pieces)
    return end, last


def _only_zeros(file: BinaryIO, begin: int) -> bool:
    file.seek(begin)
    while piece := file.read(_CHUNK_BYTES):
        if any(piece):
            return False
    return True


_NEWEST_FILES = 4
"""Files of a table whose last batches are read: several runs may have been interrupted."""
_ENDING = ".jsonl.gz"


class Archive:
    """The files of one run in a folder: `message-20261121T150000Z.jsonl.gz`."""

    def __init__(self, folder: Path, now: datetime) -> None:
        """
        Name the files by `now`; the folder is created when it is needed.

        If the clock was set back, the newest file is continued, because names sort by time.
        """
        self._folder = folder
        self._now = now.strftime("%Y%m%dT%H%M%SZ")
        self._files: dict[str, Path] = {}
        self._written: dict[str, frozenset[str]] = {}

    def add(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """
        Append rows of a table, except those in the last batches of earlier runs.

        After an OSError the rows must not be deleted.
        """
        make_folder(self._folder)
        lines = [json.dumps(json_row(row), ensure_ascii=False) + "\n" for row in rows]
        if table not in self._written:
            self._written[table] = last_lines(self._folder, table)
            own = self._folder / f"{table}-{self._now}{_ENDING}"
            self._files[table] = max([own, *_files_of(self._folder, table)])
        if new := [line for line in lines if line not in self._written[table]]:
            self._append(table, "".join(new))

    def _append(self, table: str, lines: str) -> None:
        file = self._files[table]
        descriptor = open_private(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        with os.fdopen(descriptor, "ab", buffering=0) as opened:
            before = os.fstat(descriptor).st_size
            try:
                _write(opened, gzip.compress(lines.encode()))  # one gzip member per batch
                os.fsync(descriptor)
            except OSError as error:  # an incomplete member would hide later ones
                os.ftruncate(descriptor, before)
                raise OSError(error.errno, error.strerror, str(file)) from error
        if not before:
            sync_folder(self._folder)


def last_lines(folder: Path, table: str) -> frozenset[str]:
    """
    Return the lines of the last batches in a table's newest files.

    Incomplete batches are truncated first: their rows are still in the database.
    """
    batches = [last_batch(file) for file in _files_of(folder, table)[-_NEWEST_FILES:]]
    return frozenset(line for batch in batches for line in batch.decode().splitlines(keepends=True))


def _files_of(folder: Path, table: str) -> list[Path]:
    return sorted(folder.glob(f"{table}-*{_ENDING}"))


def _write(file: RawIOBase, data: bytes) -> None:
    """Write all data, in as many calls as the file system needs."""
    left = memoryview(data)
    while left:
        left = left[file.write(left) or 0 :]


def json_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Convert bytes to text if they are UTF-8, else to `NAME_base64`."""
    converted: dict[str, Any] = {}
    for name, value in row.items():
        if not isinstance(value, bytes | memoryview):
            converted[name] = value
            continue
        data = bytes(value)
        try:
            converted[name] = data.decode("utf-8")
        except UnicodeDecodeError:
            converted[f"{name}_base64"] = base64.b64encode(data).decode("ascii")
    return converted


def prune_home(
    settings: Settings,
    older_than: float | None,
    *,
    max_size: int = 0,
    patience: int = 0,
    archive: Path | None = None,
    report: Report = NOT_SHOWN,
) -> dict[str, int]:
    """
    Remove rows older than `older_than` seconds; return the number of removed rows by kind.

    `older_than` None: remove nothing because of its age.
    `max_size`: also remove the oldest messages and deliveries until the others need at most so many
    bytes; 0: no limit.
    `patience`: milliseconds that old rows may wait for their whole partition (`retention.prune`).
    `archive`: a folder to which removed rows are written first. Raises OSError if this fails.
    """
    now = time.time_ns() // 1_000_000
    before = 0 if older_than is None else now - round(older_than * 1000)
    keep = None if archive is None else Archive(archive, datetime.now(UTC)).add
    prunes_engine = settings.engine.is_internal and older_than is not None
    with bridge_database_of(settings) as bridge:
        too_large_before = find_size_cutoff(bridge, max_size) if max_size else 0
        end = max(before, too_large_before)
        patience = patience if before >= too_large_before else 0
        removing = _Batches("removing messages and deliveries", report)
        found = prune(bridge, end, archive=keep, patience=patience, pause=removing.pause)
        counts = asdict(found)
        delete_orphans(bridge, now)
        patient_records.delete_old(bridge, before)
        identifier_changes.delete_old(bridge, before)
        report_events.delete_old(bridge, before)
        event = command_event("prune", target=("retention", str(end)), after=counts)
        if prunes_engine:
            report("removing changes, sessions and links", 0, 0)
            read_to = _feed_position(bridge)
            if read_to is None and active_settings.current(settings, bridge).destination:
                read_to = 0  # the delivery role has read nothing yet: keep all changes
            counts |= _prune_engine(settings, before, read_to)
            event = command_event(
                "prune",
                target=("retention", str(before)),
                details={"before": before, **counts},
                after=counts,
            )
        with bridge.write() as connection:
            outbox.add(connection, event, time.time_ns() // 1_000_000)
    return counts


class _Batches:
    """Reports the batches of a removal."""

    def __init__(self, step: str, report: Report) -> None:
        self._step, self._report, self._count = step, report, 0

    def pause(self, seconds: float) -> None:
        """Yield to others between two batches."""
        self._count += 1
        self._report(self._step, self._count, 0)
        time.sleep(seconds)


def _feed_position(bridge: Database) -> int | None:
    """Return the lowest cursor of the bridge in the change feed; None before the first read."""
    with bridge.read() as connection:
        found: int | None = connection.scalar(select(func.min(FEED_CURSORS.c.cursor)))
    return found


def _prune_engine(settings: Settings, before: int, read_to: int | None) -> dict[str, int]:
    """Remove rows in small transactions, so that other work is not delayed; return how many."""
    counts: Counter[str] = Counter()
    body = {"before": before, "upTo": read_to}
    with internal_engine(settings) as engine:
        while True:
            removed = engine.call("POST", "operator", "prune", body=body)
            counts.update(removed)
            if not any(removed.values()):
                return dict(counts)
