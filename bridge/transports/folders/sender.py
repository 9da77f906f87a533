"""
Folder sender: writes each message to a file, complete and on disk under its final name.

Names sort in the order of sending and contain MSH-10. A repetition replaces a file that its reader
has not processed yet.
"""

import asyncio
import re
from collections.abc import Callable
from datetime import datetime
from typing import Final

from twisted.internet.defer import Deferred, succeed

from bridge.executors import Threads
from bridge.transports.folders.files import ACKS, Folder
from mappings.hl7.acknowledgment import build_ack
from mappings.hl7.header import peek
from mappings.hl7.tables import AckCode
from mllp.errors import LossReason, NotConnected, ReplyLost

SUFFIX: Final = ".hl7"
LOOK_EVERY: Final = 0.2  # seconds
_LONGEST_ANSWER: Final = 2**20  # bytes
_LONGEST_NUMBER: Final = 150  # characters of MSH-10 in a name
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.-]")


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
        self._last = 0

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
            code, number = AckCode.COMMIT_ACCEPT, f"F{self._last}"
            return build_ack(peek(payload), code, control_id=number, now=now)
        return await self._answer(payload, f"{ACKS}/{name}.ack", self._answer_within)

    def _write(self, payload: bytes) -> str:
        self._folder.prepare(*([] if self._answer_within is None else [ACKS]))
        number = _UNSAFE.sub("_", peek(payload).control_id.decode("latin-1"))[:_LONGEST_NUMBER]
        self._folder.clear(f"-{number}{SUFFIX}")
        name = self._name(number)
        if (
            self._answer_within is not None
        ):  # an acknowledgment of an earlier attempt does not count
            self._folder.remove(f"{ACKS}/{name}.ack")
        self._folder.put(name, payload)
        return name

    def _name(self, number: str) -> str:
        """Return the name of the same message that still waits there, or the next name."""
        names = [each.name for each in self._folder.waiting() if each.name.endswith(SUFFIX)]
        ending = f"-{number}{SUFFIX}"
        for name in names:
            if name.endswith(ending):
                return name
        stamps = [int(head) for name in names if (head := name.partition("-")[0]).isdigit()]
        now = int(self._clock().timestamp() * 1000)
        self._last = max([now, self._last + 1, *(stamp + 1 for stamp in stamps)])
        return f"{self._last:015d}{ending}"

    async def _answer(self, payload: bytes, answer: str, within: float) -> bytes:
        """Wait for the reader's acknowledgment."""
        loop = asyncio.get_running_loop()
        until = loop.time() + within
        loss = LossReason.TIMEOUT
        while loop.time() < until:
            try:
                reply = await Threads.FOLDERS.run(self._folder.read, answer, _LONGEST_ANSWER)
            except OSError:
                reply = b""
            if reply and self._matches(payload, reply):
                return reply
            if reply:  # possibly incomplete
                loss = LossReason.MISMATCH
            await asyncio.sleep(LOOK_EVERY)
        raise ReplyLost(loss)
