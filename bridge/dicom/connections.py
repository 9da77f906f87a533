"""
Limits of a DICOM connection: sizes and times of PDUs and messages (PS3.8 9.3), before they are
read.

pynetdicom reads a PDU as long as its header says, keeps the fragments of a message until the last
one, and its thread ends with a stack trace if it cannot read a request or a command. A connection
counts the bytes that it passes on, and checks requests, commands and the order of fragments. At a
limit of data sets it passes on no more of this one; at any other limit it ends itself with an
A-ABORT.
"""

import secrets
import socket
import ssl
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from pynetdicom.dimse_messages import DIMSEMessage
from pynetdicom.pdu import A_ABORT_RQ, A_ASSOCIATE_RQ, A_RELEASE_RP, A_RELEASE_RQ
from pynetdicom.pdu_primitives import P_DATA
from typing_extensions import override

_HEAD: Final = 6
_ASSOCIATE_RQ: Final = 0x01
_P_DATA: Final = 0x04
_LAST_TYPE: Final = 0x07
_MAX_REQUEST: Final = 128 * 2**10
"""Bytes of A-ASSOCIATE-RQ: 128 presentation contexts with ten transfer syntaxes have 60 KiB."""
_MAX_OTHER: Final = 64
_MAX_COMMAND: Final = 16 * 2**10
_MAX_UNANSWERED: Final = 8
"""Requests, or other messages, that a peer may send before an answer to one of them leaves. One is
the rule (PS3.7 D.3.3.3), and pynetdicom keeps all that it has read."""
_COMMAND, _LAST = 1, 2
"""Bits of the message control header."""
_CONTEXT_AND_CONTROL: Final = 2  # bytes of a presentation data value before its content
_PART: Final = 64 * 2**10
_ABORT, _PROVIDER = 0x07, 2
_UNKNOWN, _MALFORMED, _UNEXPECTED = "unknown PDU", "malformed PDU", "unexpected fragment"
_REASONS: Final = {_UNKNOWN: 1, _UNEXPECTED: 2, _MALFORMED: 6, "max_pdu": 6}
"""Reasons of A-ABORT (PS3.8 9.3.8); 0 is none."""
CUT: Final = secrets.token_bytes(32)
"""The end of a data set that was cut. No peer knows it."""


class LimitExceeded(ConnectionAbortedError):
    """A peer sends more, or more slowly, than a limit allows; the text names the limit."""


class MemoryBudget:
    """The bytes of data sets that arrive in all associations, and their limit. For threads."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        """Return False if the data sets of all associations would be too large together."""
        with self._lock:
            if self._free < size:
                return False
            self._free -= size
            return True

    def give_back(self, size: int) -> None:
        with self._lock:
            self._free += size


@dataclass(slots=True)
class PduLimits:
    """The limits of a connection. The first `free_bytes` of a data set are not in `memory`."""

    max_pdu: int
    request_seconds: float
    message_seconds: float
    memory: MemoryBudget
    free_bytes: int = 0


@dataclass(slots=True)
class PduStream:
    """
    Follows the PDUs of a connection. Raises LimitExceeded.

    `max_data_sets` are bytes by presentation context. A data set that exceeds a limit is cut: its
    further fragments are passed on without content, and the last one is `CUT`, so that the request
    can be answered. One of twice the size ends the connection.
    """

    limits: PduLimits
    on_cut: Callable[[str], object]
    """Gets the limit that a data set exceeds."""
    clock: Callable[[], float] = time.monotonic
    is_associated: bool = False
    max_data_sets: dict[int, int] = field(default_factory=dict)
    _is_cut: bool = False
    _passed: bytearray = field(default_factory=bytearray)
    _head: bytes = b""
    _body: bytearray = field(default_factory=bytearray)
    _kind: int = 0
    _left: int = 0
    _command: bytearray = field(default_factory=bytearray)
    _context: int | None = None
    """The presentation context of an unfinished message."""
    _is_request: bool = False
    """True if the message, whose command was read, needs an answer."""
    _awaits_data: bool = False
    """True between a command and the end of its data set."""
    _data_set: int = 0
    _taken: int = 0
    """Bytes of the unfinished data set that `memory` gave."""
    _held: deque[int] = field(default_factory=deque)
    """The same of the data sets whose requests have no answer yet."""
    _unanswered: Counter[bool] = field(default_factory=Counter)
    """Messages since the last answer: those that need one (True), and others."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _began: float | None = None
    """When the unfinished PDU or message began."""
    _is_broken: bool = False

    @property
    def wanted(self) -> int:
        """The bytes up to the end of the header or the PDU."""
        return self._left or _HEAD - len(self._head)

    def seconds_left(self) -> float:
        """Return the time for the rest of a PDU or message. Raises LimitExceeded."""
        seconds = self.limits.message_seconds
        if not self.is_associated:
            seconds = self.limits.request_seconds
        if self._began is None:
            return seconds
        left = self._began + seconds - self.clock()
        if left <= 0:
            raise LimitExceeded("message_timeout" if self.is_associated else "request_timeout")
        return left

    def feed(self, data: bytes) -> None:
        """Count bytes that were received. PDUs are passed on when they are whole."""
        if self._is_broken:
            raise LimitExceeded(_UNKNOWN)
        if self._began is None:
            self._began = self.clock()
        at = 0
        while at < len(data):
            if self._left:
                part = data[at : at + self._left]
                self._left -= len(part)
                self._add(part)
            else:
                part = data[at : at + _HEAD - len(self._head)]
                self._head += part
                if len(self._head) == _HEAD:
                    self._begin(self._head[0], int.from_bytes(self._head[2:], "big"))
            at += len(part)
        if not (self._left or self._head or self._context is not None):
            self._began = None

    def read(self, size: int) -> bytes:
        """Return the next bytes that are passed on."""
        part = bytes(self._passed[:size])
        del self._passed[:size]
        return part

    def note_answer(self) -> None:
        """Give back the memory of a request that is answered. For any thread."""
        with self._lock:
            self._unanswered[True] = max(0, self._unanswered[True] - 1)
            self._unanswered[False] = 0
            held = self._held.popleft() if self._held else 0
        self.limits.memory.give_back(held)

    def close(self) -> None:
        """Give back the memory of all messages."""
        self._end_message()
        with self._lock:
            held = sum(self._held)
            self._held.clear()
        self.limits.memory.give_back(held)

    def _end_message(self) -> None:
        """Hold the memory of a request until its answer; give back that of another message."""
        if self._is_request:
            with self._lock:
                self._held.append(self._taken)
        else:
            self.limits.memory.give_back(self._taken)
        self._taken = self._data_set = 0
        self._is_cut = self._is_request = self._awaits_data = False
        self._context = None

    def _count_message(self) -> None:
        with self._lock:
            self._unanswered[self._is_request] += 1
            if self._unanswered[self._is_request] > _MAX_UNANSWERED:
                raise LimitExceeded("unanswered requests")

    def _cut(self, limit: str) -> None:
        if not self._is_cut:
            self._is_cut = True
            self.on_cut(limit)

    def _begin(self, kind: int, length: int) -> None:
        self._is_broken = not 0 < kind <= _LAST_TYPE
        limits = {_ASSOCIATE_RQ: _MAX_REQUEST, _P_DATA: self.limits.max_pdu}
        if not self._is_broken and length > limits.get(kind, _MAX_OTHER):
            raise LimitExceeded("max_pdu")
        self._kind, self._left = kind, length
        if not length and kind in {_ASSOCIATE_RQ, _P_DATA}:
            raise LimitExceeded(_MALFORMED)
        if self._is_broken or not length:
            self._passed += self._head
        self._head = b""

    def _add(self, part: bytes) -> None:
        self._body += part
        if self._left:
            return
        body = bytes(self._body)
        self._body.clear()
        if self._kind == _P_DATA:
            body = self._values(body)
        pdu = bytes((self._kind, 0)) + len(body).to_bytes(4, "big") + body
        _check_pdu(pdu)
        self._passed += pdu

    def _values(self, body: bytes) -> bytes:
        """Count the presentation data values of a P-DATA-TF PDU; return those to pass on."""
        kept, at = bytearray(), 0
        while at < len(body):
            size = int.from_bytes(body[at : at + 4], "big")
            end = at + 4 + size
            if size < _CONTEXT_AND_CONTROL or end > len(body):
                raise LimitExceeded(_MALFORMED)
            context, control = body[at + 4 : at + 6]
            if self._count(context, control, body[at + 6 : end]):
                kept += body[at:end]
            else:
                content = CUT if control & _LAST else b""
                length = len(content) + _CONTEXT_AND_CONTROL
                kept += length.to_bytes(4, "big") + bytes((context, control)) + content
            at = end
        return bytes(kept)

    def _count(self, context: int, control: int, content: bytes) -> bool:
        """Count a fragment; return False if its data set is cut."""
        is_command = bool(control & _COMMAND)
        if is_command == self._awaits_data or self._context not in {None, context}:
            raise LimitExceeded(_UNEXPECTED)
        self._context = context
        if is_command:
            self._command += content
            if len(self._command) > _MAX_COMMAND:
                raise LimitExceeded("command")
            if control & _LAST:
                self._is_request, self._awaits_data = _read_command(context, bytes(self._command))
                self._command.clear()
                self._count_message()
                if not self._awaits_data:
                    self._end_message()
            return True
        return self._count_data(context, len(content), is_last=bool(control & _LAST))

    def _count_data(self, context: int, size: int, *, is_last: bool) -> bool:
        """Count a fragment of a data set; return False if it is cut."""
        limit, before = self.max_data_sets.get(context, 0), self._data_set
        self._data_set += size
        if self._data_set > 2 * limit:
            raise LimitExceeded("data set")
        if self._data_set > limit:
            self._cut("data set")
        free = self.limits.free_bytes
        more = max(self._data_set, free) - max(before, free)
        if not self._is_cut:
            if self.limits.memory.take(more):
                self._taken += more
            else:
                self._cut("object_memory")
        is_kept = not self._is_cut
        if is_last:
            self._end_message()
        return is_kept


_READERS: Final[Mapping[int, Callable[[], Any]]] = {
    _ASSOCIATE_RQ: A_ASSOCIATE_RQ,
    0x05: A_RELEASE_RQ,
    0x06: A_RELEASE_RP,
    _ABORT: A_ABORT_RQ,
}


def _check_pdu(pdu: bytes) -> None:
    """Raise LimitExceeded if pynetdicom cannot read a PDU that a requestor may send."""
    if (reader := _READERS.get(pdu[0])) is None:
        return
    read = reader()
    try:
        read.decode(pdu)
        primitive = read.to_primitive()
    except Exception:  # noqa: BLE001  # of pynetdicom, for any malformed item
        raise LimitExceeded(_MALFORMED) from None
    if pdu[0] == _ASSOCIATE_RQ:
        contexts = primitive.presentation_context_definition_list
        has_syntaxes = all(context.transfer_syntax for context in contexts)
        if not has_syntaxes or len({context.context_id for context in contexts}) < len(contexts):
            raise LimitExceeded(_MALFORMED)


def _read_command(context: int, command: bytes) -> tuple[bool, bool]:
    """
    Return whether a command needs an answer, and whether it announces a data set.

    Raises LimitExceeded if it cannot be read.
    """
    message, fragment = DIMSEMessage(), P_DATA()
    value: Any = [context, bytes((_COMMAND | _LAST,)) + command]
    try:
        fragment.presentation_data_value_list = [value]
        is_whole = message.decode_msg(fragment)
        primitive: Any = message.message_to_primitive()
    except Exception:  # noqa: BLE001  # of pynetdicom and pydicom, for any malformed element
        raise LimitExceeded(_MALFORMED) from None
    is_request = getattr(primitive, "MessageID", None) is not None
    if not is_request and primitive.MessageIDBeingRespondedTo is None:
        raise LimitExceeded(_MALFORMED)
    return is_request, not is_whole


_QUICK_ACK: Final = getattr(socket, "TCP_QUICKACK", None)
"""Of Linux only."""


def _acknowledge(connection: Any) -> None:
    """
    Have TCP acknowledge at once what was received.

    pynetdicom and others send a command and its data set apart, without TCP_NODELAY: the data set
    waits for the acknowledgment of the command, which TCP delays by 40 ms.
    """
    if _QUICK_ACK is not None:
        with suppress(OSError):  # the connection has ended
            connection.setsockopt(socket.IPPROTO_TCP, _QUICK_ACK, 1)


class _Limited:
    """The part of a connection's socket that counts what it receives."""

    stream: PduStream | None = None
    on_limit: Callable[[str], object] | None = None

    def recv(self, size: int, flags: int = 0) -> bytes:
        stream = self.stream
        if stream is None:
            return bytes(super().recv(size, flags))  # type: ignore[misc]  # of the socket
        try:
            while not (passed := stream.read(size)):
                self.settimeout(stream.seconds_left())  # type: ignore[attr-defined]  # of the socket
                try:
                    data: bytes = super().recv(min(stream.wanted, _PART), flags)  # type: ignore[misc]  # of the socket
                except TimeoutError:
                    stream.seconds_left()
                    raise
                if not data:
                    break
                _acknowledge(self)
                stream.feed(data)
        except LimitExceeded as error:
            stream.close()
            if self.on_limit is not None:
                self.on_limit(str(error))
            self._end(str(error))
            raise
        self.settimeout(stream.limits.message_seconds)  # type: ignore[attr-defined]  # as above
        return passed

    def _end(self, reason: str) -> None:
        """Send an A-ABORT if the peer reads, and end the connection."""
        with suppress(OSError):
            self.settimeout(0)  # type: ignore[attr-defined]  # of the socket
            abort = bytes((_ABORT, 0, 0, 0, 0, 4, 0, 0, _PROVIDER, _REASONS.get(reason, 0)))
            self.send(abort)  # type: ignore[attr-defined]  # of the socket
        with suppress(OSError):
            self.shutdown(socket.SHUT_RDWR)  # type: ignore[attr-defined]  # of the socket

    def close(self) -> None:
        if self.stream is not None:
            self.stream.close()
        super().close()  # type: ignore[misc]  # of the socket


class PlainConnection(_Limited, socket.socket):
    """A connection without TLS."""


class TlsConnection(_Limited, ssl.SSLSocket):
    """A connection with TLS."""

    @override
    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        return super().recv(buflen, flags)


def plain_connection(accepted: socket.socket) -> PlainConnection:
    """Return a socket with limits for an accepted one, whose descriptor it takes over."""
    found = PlainConnection(accepted.family, accepted.type, accepted.proto, accepted.detach())
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


def set_limits(connection: Any, limits: PduLimits, on_limit: Callable[[str], object]) -> PduStream:
    """Begin to count what a connection receives."""
    stream = PduStream(limits, on_limit)
    connection.stream, connection.on_limit = stream, on_limit
    return stream
