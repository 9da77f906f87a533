"""
Folder listener: passes the messages of each file to the handler, then moves the file.

A file is moved after its messages are committed. If the process ends between the two, the file is
read again, and the handler recognizes the repetition. A file is `done` if all its messages were
accepted, and `failed` if one was refused. After an internal error (AE 207), which is no fault of
the file, its later messages wait until it is read again. The last attempt passes on all of them.
"""

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import structlog

from bridge.executors import Threads
from bridge.redaction import describe, stack_frames
from bridge.transports.folder_files import ACKS, DONE, FAILED, Folder, fit_name
from mappings.hl7.acknowledgment import ReceivedAck, read_ack
from mappings.hl7.batch import MAX_MESSAGES, count_messages, messages_in, split
from mappings.hl7.refusals import ErrorCode, MalformedMessage
from mllp.contract import Handler, NakBuilder, ServerObserver, as_deferred
from mllp.errors import FrameTooLarge
from mllp.framing import Frame
from mllp.server import MAX_HEAD_BYTES


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
        await Threads.FOLDERS.run(self._folder.prepare, DONE, FAILED, ACKS)

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
            found = await Threads.FOLDERS.run(self._folder.waiting_files, MAX_LISTED)
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
        count = await Threads.FOLDERS.run(self._folder.count_ignored)
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
            await Threads.FOLDERS.run(self._move, name, disposition, replies)
        except OSError as error:
            self._log.error("file not moved", error=describe(error))
            return not self._may_try_again(name)
        self._attempts.pop(name, None)
        return True

    def _may_try_again(self, name: str) -> bool:
        """Count a failed attempt to process a file; tell whether another one is allowed."""
        self._attempts[name] = self._attempts.get(name, 0) + 1
        return self._attempts[name] < MAX_ATTEMPTS

    async def _replies(self, name: str, size: int, peer: _FilePeer) -> Sequence[bytes]:
        limit = self._rules.max_file
        # One byte more than the limit: the file may have grown since it was listed.
        max_bytes = MAX_HEAD_BYTES if size > limit else limit + 1
        data = await Threads.FOLDERS.run(self._folder.read, name, max_bytes)
        if size > limit or len(data) > limit:
            error = FrameTooLarge(self._rules.max_file)
            self._observer.frame_refused(error)
            reply = self._refuse(error, data[:MAX_HEAD_BYTES])
            return [] if reply is None else [reply]
        # A single message is passed on unchanged; other content is refused by the handler.
        too_many = count_messages(data) > MAX_MESSAGES
        messages = [] if too_many else await Threads.FOLDERS.run(messages_in, data)
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
