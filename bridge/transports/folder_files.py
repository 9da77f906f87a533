"""
Folders as transports: the files of one folder, and the sender that writes them.

Other accounts may write to the folder, so nothing in it is trusted. Every path, also of `done`,
`failed` and `acks`, is opened relative to a descriptor of the folder and without following symbolic
links. Only regular files with one name (no hard links) are read, and never more than the caller
allows. A file under its final name is complete and on disk. `Folder` blocks: call it from a thread.

The names of sent files sort in the order of sending and contain MSH-10. A repetition replaces a
file that its reader has not processed yet.
"""

import asyncio
import errno
import fcntl
import heapq
import os
import re
import stat
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Final

from twisted.internet.defer import Deferred, succeed

from bridge.executors import Threads
from config.private_files import FILE_MODE, FOLDER_MODE, make_folder
from mappings.hl7.acknowledgment import build_ack
from mappings.hl7.header import peek
from mappings.hl7.refusals import AckCode
from mllp.errors import LossReason, NotConnected, ReplyLost

UNFINISHED: Final = (".tmp", ".part", ".partial", ".filepart", ".crdownload", "~")
"""Endings of names under which senders write files before they rename them."""

DONE, FAILED, ACKS = "done", "failed", "acks"
_LOCK: Final = ".lock"
_PROBE: Final = ".bridge-check"
_MAX_NAME_BYTES: Final = 255  # of a file name, in all usual file systems
_MAX_COUNTED: Final = 100  # numbers that are tried for a free name
_CHUNK_BYTES: Final = 2**20
_SAFE_FLAGS: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | _SAFE_FLAGS
_NEW_FILE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE_FLAGS
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Zl", "Zp"})  # control, bidirectional, line separators


class NotARegularFile(OSError):
    """A link, device, pipe, or file with several names; it is not read."""

    def __init__(self) -> None:
        super().__init__(errno.ELOOP, "is not a regular file with one name")


@dataclass(frozen=True, slots=True)
class WaitingFile:
    """A file to process; sorted by modification time, then by name."""

    written_at: int
    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Folder:
    """
    One folder with its `done`, `failed` and `acks`. The path itself may not be a link.

    `below`: no folder between this one and the path may be a link either, so nobody can redirect
    the path after it was checked.
    """

    path: Path
    below: Path | None = None

    def prepare(self, *children: str) -> None:
        """Create the folder and its children. Raises OSError."""
        if self.below is None:
            make_folder(self.path)
        else:
            os.close(self._open_below(self.below, create=True))
        with self._opened() as folder:
            for child in children:
                with _inside(folder, child):
                    pass

    def probe(self) -> None:
        """Create the folder and test that files can be created in it. Raises OSError."""
        self.prepare()
        self.put(_PROBE, b"")
        self.remove(_PROBE)

    @contextmanager
    def lock(self) -> Iterator[bool]:
        """Lock the folder for this process; yields False if another process has the lock."""
        with self._opened() as folder:
            descriptor = os.open(
                _LOCK, os.O_RDWR | os.O_CREAT | _SAFE_FLAGS, FILE_MODE, dir_fd=folder
            )
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            yield False
            return
        try:
            yield True
        finally:
            os.close(descriptor)

    def waiting_files(self, most: int = sys.maxsize) -> list[WaitingFile]:
        """
        List the oldest `most` files to process, in order; reads the attributes of each file.

        Entries that are not regular files are not listed.
        """
        with self._opened() as folder, os.scandir(folder) as entries:
            found = filter(None, map(_waiting_file, entries))
            return heapq.nsmallest(most, found, lambda file: (file.written_at, file.name))

    def count_ignored(self) -> int:
        """Count entries that are never read: irregular files, names with control characters."""
        count = 0
        with self._opened() as folder, os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith(".") or entry.name.lower().endswith(UNFINISHED):
                    continue
                with suppress(FileNotFoundError):
                    seen = entry.stat(follow_symlinks=False)
                    if not stat.S_ISDIR(seen.st_mode):
                        count += not (_is_plain(seen) and _is_candidate(entry.name))
        return count

    def read(self, name: str, max_bytes: int) -> bytes:
        """Read up to `max_bytes` bytes of a file; `ACKS/NAME` is in a child. Raises OSError."""
        with self._parent(name) as (folder, last), _reading(folder, last) as descriptor:
            pieces, left = [], max_bytes
            while left > 0 and (piece := os.read(descriptor, min(left, _CHUNK_BYTES))):
                pieces.append(piece)
                left -= len(piece)
        return b"".join(pieces)

    def move(self, name: str, child: str) -> None:
        """
        Move a file into `child`, under a new name if its name is in use there.

        On another file system the copy is on disk before the original is deleted.
        """
        with self._opened() as folder, _inside(folder, child) as target:
            number, free_name = 1, name
            while _exists(target, free_name):
                number += 1
                # A sender may use one name for all files: many numbers would be tried each time.
                ending = number if number <= _MAX_COUNTED else time.time_ns()
                free_name = fit_name(Path(name).stem, f".{ending}{Path(name).suffix}")
            try:
                os.rename(name, free_name, src_dir_fd=folder, dst_dir_fd=target)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                with _reading(folder, name) as source:
                    _write(target, free_name, _pieces(source))
                os.fsync(target)
                os.unlink(name, dir_fd=folder)
            os.fsync(target)
            os.fsync(folder)

    def put(self, name: str, data: bytes) -> None:
        """
        Write a file atomically and flush it; replaces a file with the same name.

        `ACKS/NAME` is in a child, which is created if it is missing. The folder itself is not
        created, because it may be a mount point.
        """
        with self._parent(name) as (folder, last):
            _write(folder, last, iter([data]))
            os.fsync(folder)

    def remove(self, name: str) -> None:
        """Delete a file, if it exists."""
        with self._parent(name) as (folder, last), suppress(FileNotFoundError):
            os.unlink(last, dir_fd=folder)

    def names(self) -> list[str]:
        """List all names, also hidden ones, in no order; much faster than `waiting_files`."""
        with self._opened() as folder:
            return os.listdir(folder)  # noqa: PTH208  # a descriptor, no path

    @contextmanager
    def _opened(self) -> Iterator[int]:
        descriptor = (
            os.open(self.path, _FOLDER_FLAGS)
            if self.below is None
            else self._open_below(self.below, create=False)
        )
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _open_below(self, below: Path, *, create: bool) -> int:
        """Open the folder from `below`, one component at a time. Raises OSError for links."""
        descriptor = os.open(below, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for part in self.path.relative_to(below).parts:
            outer = descriptor
            try:
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(part, FOLDER_MODE, dir_fd=outer)
                descriptor = os.open(part, _FOLDER_FLAGS, dir_fd=outer)
            finally:
                os.close(outer)
        return descriptor

    @contextmanager
    def _parent(self, name: str) -> Iterator[tuple[int, str]]:
        """Open the folder that contains a name, or a name in a child."""
        child, _, last = name.rpartition("/")
        with self._opened() as folder:
            if not child:
                yield folder, last
                return
            with _inside(folder, child) as inner:
                yield inner, last


def fit_name(name: str, ending: str) -> str:
    """Join a name and its ending; a digest replaces a name that is too long."""
    if len(os.fsencode(name + ending)) <= _MAX_NAME_BYTES:
        return name + ending
    digest = blake2b(os.fsencode(name), digest_size=16).hexdigest()
    return f"{'.' if name.startswith('.') else ''}{digest}{ending[-64:]}"


def _is_candidate(name: str) -> bool:
    if name.startswith(".") or name.lower().endswith(UNFINISHED):
        return False
    return not any(unicodedata.category(character) in _INVISIBLE for character in name)


def _waiting_file(entry: os.DirEntry[str]) -> WaitingFile | None:
    if not _is_candidate(entry.name):
        return None
    try:
        seen = entry.stat(follow_symlinks=False)
    except FileNotFoundError:  # its sender deleted it
        return None
    return WaitingFile(seen.st_mtime_ns, entry.name, seen.st_size) if _is_plain(seen) else None


def _is_plain(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1


@contextmanager
def _inside(folder: int, child: str) -> Iterator[int]:
    """Open a folder in another one, created if missing; a link is an error."""
    with suppress(FileExistsError):
        os.mkdir(child, FOLDER_MODE, dir_fd=folder)
    descriptor = os.open(child, _FOLDER_FLAGS, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _reading(folder: int, name: str) -> Iterator[int]:
    """Open a regular file; the check uses the descriptor, so the file cannot be exchanged."""
    descriptor = os.open(name, os.O_RDONLY | _SAFE_FLAGS, dir_fd=folder)
    try:
        if not _is_plain(os.fstat(descriptor)):
            raise NotARegularFile
        yield descriptor
    finally:
        os.close(descriptor)


def _pieces(descriptor: int) -> Iterator[bytes]:
    while piece := os.read(descriptor, _CHUNK_BYTES):
        yield piece


def _write(folder: int, name: str, pieces: Iterator[bytes]) -> None:
    unfinished = fit_name(f".{name}", ".tmp")
    with suppress(FileNotFoundError):  # left by a process that was killed
        os.unlink(unfinished, dir_fd=folder)
    descriptor = os.open(unfinished, _NEW_FILE_FLAGS, FILE_MODE, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(descriptor)
        os.rename(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:  # on a full disk an incomplete file would block the next attempt
        with suppress(FileNotFoundError):
            os.unlink(unfinished, dir_fd=folder)
        raise


def _exists(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


SUFFIX: Final = ".hl7"
SCAN_EVERY_SECONDS: Final = 0.2
_MAX_ACK_BYTES: Final = 2**20
_MAX_CONTROL_ID: Final = 150  # characters of MSH-10 in a file name
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.-]")
_STAMP_DIGITS: Final = 15
_STAMP: Final = re.compile(rf"[0-9]{{{_STAMP_DIGITS}}}-")
"""The beginning of a file name: the time of sending in ms."""


class FolderSender:
    """
    Writes messages into a folder, one at a time.

    With `answer_within` (seconds) the sender waits for the reader's acknowledgment in
    `acks/NAME.ack`. Without it, a file on disk counts as delivered; the sender returns CA.
    """

    def __init__(
        self,
        folder: Folder,
        *,
        clock: Callable[[], datetime],
        answer_within: float | None = None,
        matches: Callable[[bytes, bytes], bool],
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._answer_within = answer_within
        self._matches = matches
        self._last_stamp = 0

    def send(self, payload: bytes) -> Deferred[bytes]:
        """Write one message; return its acknowledgment."""
        return Deferred.fromFuture(asyncio.ensure_future(self._send(payload)))

    def close(self) -> Deferred[None]:
        """Do nothing: no file is open."""
        return succeed(None)

    async def _send(self, payload: bytes) -> bytes:
        try:
            name = await Threads.FOLDERS.run(self._write, payload)
        except OSError as error:
            raise NotConnected(type(error).__name__) from error
        if self._answer_within is None:
            now = self._clock()
            control_id = f"F{self._last_stamp}"
            return build_ack(peek(payload), AckCode.COMMIT_ACCEPT, control_id=control_id, now=now)
        return await self._answer(payload, f"{ACKS}/{name}.ack", self._answer_within)

    def _write(self, payload: bytes) -> str:
        self._folder.prepare(*([] if self._answer_within is None else [ACKS]))
        control_id = _UNSAFE.sub("_", peek(payload).control_id.decode("latin-1"))[:_MAX_CONTROL_ID]
        name = self._name(f"-{control_id}{SUFFIX}", self._folder.names())
        if self._answer_within is not None:
            # An acknowledgment of an earlier attempt does not count.
            self._folder.remove(f"{ACKS}/{name}.ack")
        self._folder.put(name, payload)
        return name

    def _name(self, ending: str, names: Sequence[str]) -> str:
        """
        Return the name of the message's file if the reader has not taken it, else a new name.

        Deletes temporary files of the message, which killed processes left.
        """
        sent = [name for name in names if name.endswith(SUFFIX) and _STAMP.match(name)]
        for name in names:
            if name.startswith(".") and name.endswith(f"{ending}.tmp"):
                self._folder.remove(name)
        for name in sent:
            if name[_STAMP_DIGITS:] == ending:
                return name
        now = int(self._clock().timestamp() * 1000)
        newest = int(max(sent, default="0" * _STAMP_DIGITS)[:_STAMP_DIGITS])
        self._last_stamp = max(now, self._last_stamp + 1, newest + 1)
        return f"{self._last_stamp:0{_STAMP_DIGITS}d}{ending}"

    async def _answer(self, payload: bytes, answer: str, within: float) -> bytes:
        """Wait for the reader's acknowledgment."""
        loop = asyncio.get_running_loop()
        until = loop.time() + within
        loss = LossReason.TIMEOUT
        while loop.time() < until:
            try:
                reply = await Threads.FOLDERS.run(self._folder.read, answer, _MAX_ACK_BYTES)
            except OSError:
                reply = b""
            if reply and self._matches(payload, reply):
                return reply
            if reply:  # possibly incomplete
                loss = LossReason.MISMATCH
            await asyncio.sleep(SCAN_EVERY_SECONDS)
        raise ReplyLost(loss)
