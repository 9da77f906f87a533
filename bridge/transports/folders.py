"""
Folders as transports: the files of one folder, the sender that writes them, and the listener.

Other accounts may write to the folder, so nothing in it is trusted. Every path, also of `done`,
`failed` and `acks`, is opened relative to a descriptor of the folder and without following symbolic
links. Only regular files with one name (no hard links) are read, and never more than the caller
allows. A file under its final name is complete and on disk. `Folder` blocks: call it from a thread.

The names of sent files sort in the order of sending and contain MSH-10. A repetition replaces a
file that its reader has not processed yet.

The listener passes the messages of each file to the handler, then moves the file. If the process
ends between the two, the file is read again, and the handler recognizes the repetition. A file is
`done` if all its messages were accepted, and `failed` if one was refused. After an internal error
(AE 207), which is no fault of the file, its later messages wait until it is read again. The last
attempt passes on all of them.
"""

import asyncio
import errno
import fcntl
import heapq
import itertools
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
from enum import StrEnum
from hashlib import blake2b
from pathlib import Path
from typing import Final

import structlog
from twisted.internet.defer import Deferred, succeed

from bridge.executors import ThreadLimit, Threads
from bridge.redaction import describe, stack_frames
from config.private_files import FILE_MODE, FOLDER_MODE, make_folder
from mappings.hl7.acknowledgment import ReceivedAck, build_ack, read_ack
from mappings.hl7.batch import MAX_MESSAGES, count_messages, messages_in, split
from mappings.hl7.header import peek
from mappings.hl7.refusals import AckCode, ErrorCode, MalformedMessage
from mllp.contract import Handler, NakBuilder, ServerObserver, as_deferred
from mllp.errors import FrameTooLarge, LossReason, NotConnected, ReplyLost
from mllp.framing import Frame
from mllp.server import MAX_HEAD_BYTES

UNFINISHED: Final = (".tmp", ".part", ".partial", ".filepart", ".crdownload", "~")
"""Endings of names under which senders write files before they rename them."""

DONE, FAILED, ACKS = "done", "failed", "acks"
_LOCK: Final = ".lock"
FOLDERS: Final = ThreadLimit(Threads.EXTERNAL, "folders", 4, 1000)
"""For all folders: a network folder may block for minutes."""
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
            name = await FOLDERS.run(self._write, payload)
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
                reply = await FOLDERS.run(self._folder.read, answer, _MAX_ACK_BYTES)
            except OSError:
                reply = b""
            if reply and self._matches(payload, reply):
                return reply
            if reply:  # possibly incomplete
                loss = LossReason.MISMATCH
            await asyncio.sleep(SCAN_EVERY_SECONDS)
        raise ReplyLost(loss)


class FileDisposition(StrEnum):
    DONE = "done"
    FAILED = "failed"
    RETRY = "retry"


def disposition_of(replies: Sequence[bytes]) -> FileDisposition:
    """Return the disposition for the replies of a file; a message without a reply was accepted."""
    acks = [ack for reply in replies for ack in _acknowledgments(reply)]
    refused = [ack for ack in acks if ack.code is None or not ack.code.positive]
    if any(ErrorCode.INTERNAL.value in ack.error_codes for ack in refused):
        return FileDisposition.RETRY
    return FileDisposition.FAILED if refused else FileDisposition.DONE


def _acknowledgments(reply: bytes) -> Iterator[ReceivedAck]:
    try:
        batch = split(reply)
    except MalformedMessage:
        batch = None
    for message in [reply] if batch is None else batch:
        yield read_ack(message)


def complete_files(
    before: dict[str, tuple[int, int]], now: Sequence[tuple[str, int, int]]
) -> tuple[list[str], dict[str, tuple[int, int]]]:
    """
    Return the complete files in order, and the state of all files for the next scan.

    `now` has name, size and time of each file. A file is complete if it has not changed since the
    last scan. A file waits for an older one that is incomplete.
    """
    seen = {name: (size, at) for name, size, at in now}
    ready: list[str] = []
    for name, size, at in now:
        if before.get(name) != (size, at):
            break
        ready.append(name)
    return ready, seen


SCANS_PER_COUNT = 60
"""Scans between two counts of ignored entries."""

MAX_LISTED = 10_000
"""Files that a scan lists; each one needs 500 bytes. Later files wait."""

MAX_ATTEMPTS = 8
"""Attempts to process a file despite internal errors, before it is moved to `failed`."""


@dataclass(frozen=True, slots=True)
class FolderRules:
    """Options of a folder listener; seconds and bytes."""

    scan_interval: float = 1.0
    max_scan_interval: float = 60.0
    """While a file fails, the interval doubles up to this one."""
    max_file: int = 16 * 2**20
    answer_files: bool = False


@dataclass(frozen=True, slots=True)
class _FilePeer:
    """The peer of the messages in one file; it gets the file of acknowledgments only."""

    connection_id: int
    host: str = "folder"
    port: int = 0
    accepts_later_frames: bool = False

    def send(self, payload: bytes) -> bool:
        """Return False: the file is moved after the replies."""
        return False


class FolderListener:
    """Empties one folder: each `scan` processes the complete files."""

    def __init__(
        self,
        name: str,
        folder: Folder,
        handle: Handler,
        refuse: NakBuilder,
        rules: FolderRules,
        observer: ServerObserver,
    ) -> None:
        """`handle` processes messages; `refuse` answers files that are too large."""
        self._log = structlog.get_logger("intake").bind(listener=name)
        self._folder = folder
        self._handle = handle
        self._refuse = refuse
        self._rules = rules
        self._observer = observer
        self._numbers = itertools.count(1)
        self._seen: dict[str, tuple[int, int]] = {}
        self._attempts: dict[str, int] = {}
        self._wait = rules.scan_interval
        self._ended = False
        self._paused = False
        self._ignored = 0
        self._scans = itertools.count()

    async def prepare(self) -> None:
        """Create the folders for processed files. Raises OSError."""
        await FOLDERS.run(self._folder.prepare, DONE, FAILED, ACKS)

    def end(self) -> None:
        """Stop after the current file."""
        self._ended = True

    def pause(self) -> None:
        """Stop after the current file, until `resume`."""
        self._paused = True

    def resume(self) -> None:
        """Process files again."""
        self._paused = False

    async def scan(self) -> float:
        """
        Process the complete files; return the seconds until the next scan.

        While a file fails or the folder cannot be read, scans become less frequent. The files
        after the failed one wait.
        """
        again = False
        try:
            again = not self._stopped and await self._scan()
        except Exception as error:  # noqa: BLE001  # a folder may be unavailable for a while
            again = True
            self._log.error("folder not read", error=describe(error), trace=stack_frames(error))
        rules = self._rules
        longer = min(self._wait * 2, rules.max_scan_interval)
        self._wait = longer if again else rules.scan_interval
        return self._wait

    @property
    def _stopped(self) -> bool:
        return self._ended or self._paused

    async def _scan(self) -> bool:
        """Process complete files; return whether a file must be processed again."""
        with self._folder.lock() as locked:
            if not locked:  # another node has the lock
                return False
            found = await FOLDERS.run(self._folder.waiting_files, MAX_LISTED)
            await self._report_ignored()
            seen = [(file.name, file.size, file.written_at) for file in found]
            ready, self._seen = complete_files(self._seen, seen)
            sizes = {file.name: file.size for file in found}
            for name in ready:
                if self._stopped:
                    return False
                if not await self._process(name, sizes[name]):
                    return True
        return False

    async def _report_ignored(self) -> None:
        """Log when the number of entries that are not regular files grows; they are not read."""
        if next(self._scans) % SCANS_PER_COUNT:
            return
        count = await FOLDERS.run(self._folder.count_ignored)
        if count > self._ignored:
            self._log.warning("entries ignored: not regular files", count=count)
        self._ignored = count

    async def _process(self, name: str, size: int) -> bool:
        """Process one file; return False if it must be processed again before later files."""
        peer = _FilePeer(next(self._numbers))
        try:
            replies = await self._replies(name, size, peer)
        except OSError as error:
            if self._may_try_again(name):
                self._log.error("file not read", error=describe(error))
            return True  # an unreadable file must not delay the others
        disposition = disposition_of(replies)
        if disposition is FileDisposition.RETRY and self._may_try_again(name):
            return False
        try:
            await FOLDERS.run(self._move, name, disposition, replies)
        except OSError as error:
            self._log.error("file not moved", error=describe(error))
            return not self._may_try_again(name)
        self._attempts.pop(name, None)
        return True

    def _may_try_again(self, name: str) -> bool:
        """Count a failed attempt to process a file; return whether another one is allowed."""
        self._attempts[name] = self._attempts.get(name, 0) + 1
        return self._attempts[name] < MAX_ATTEMPTS

    async def _replies(self, name: str, size: int, peer: _FilePeer) -> Sequence[bytes]:
        limit = self._rules.max_file
        # One byte more than the limit: the file may have grown since it was listed.
        max_bytes = MAX_HEAD_BYTES if size > limit else limit + 1
        data = await FOLDERS.run(self._folder.read, name, max_bytes)
        if size > limit or len(data) > limit:
            error = FrameTooLarge(self._rules.max_file)
            self._observer.frame_refused(error)
            reply = self._refuse(error, data[:MAX_HEAD_BYTES])
            return [] if reply is None else [reply]
        # A single message is passed on unchanged; other content is refused by the handler.
        too_many = count_messages(data) > MAX_MESSAGES
        messages = [] if too_many else await FOLDERS.run(messages_in, data)
        if too_many:
            self._log.warning("file not split: too many messages", limit=MAX_MESSAGES)
        payloads = messages if len(messages) > 1 else [data]
        is_last = self._attempts.get(name, 0) + 1 >= MAX_ATTEMPTS
        return await self._pass_on(payloads, peer, stop_on_error=not is_last)

    async def _pass_on(
        self, payloads: Sequence[bytes], peer: _FilePeer, *, stop_on_error: bool
    ) -> Sequence[bytes]:
        """
        Pass messages to the handler in their order; return the replies.

        `stop_on_error` ends at the first internal error: if a later message about the same order
        were stored first, the earlier one would replace its values when the file is read again.
        """
        replies: list[bytes] = []
        loop = asyncio.get_running_loop()
        for payload in payloads:
            self._observer.frame_received(len(payload))
            found = await as_deferred(self._handle, Frame(payload), peer).asFuture(loop)
            replies += found
            if stop_on_error and disposition_of(found) is FileDisposition.RETRY:
                break
        return replies

    def _move(self, name: str, disposition: FileDisposition, replies: Sequence[bytes]) -> None:
        if self._rules.answer_files and replies:
            self._folder.put(f"{ACKS}/{fit_name(name, '.ack')}", b"".join(replies))
        self._folder.move(name, DONE if disposition is FileDisposition.DONE else FAILED)
