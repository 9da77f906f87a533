"""
Limits of a DICOM connection: sizes and times of PDUs and messages (PS3.8 9.3), before they are
read.

pynetdicom reads a PDU as long as its header says, and keeps the fragments of a message until the
last one. A connection counts the bytes that it passes on, and ends itself at a limit.
"""

import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from typing_extensions import override

_HEAD: Final = 6
_ASSOCIATE_RQ: Final = 0x01
_P_DATA: Final = 0x04
_LAST_TYPE: Final = 0x07
_MAX_REQUEST: Final = 128 * 2**10
"""Bytes of A-ASSOCIATE-RQ: 128 presentation contexts with ten transfer syntaxes have 60 KiB."""
_MAX_OTHER: Final = 64
_MAX_COMMAND: Final = 16 * 2**10
_COMMAND, _LAST = 1, 2
"""Bits of the message control header."""


class LimitExceeded(ConnectionAbortedError):
    """A peer sends more, or more slowly, than a limit allows; the text names the limit."""


class MemoryBudget:
    """The bytes of data sets that arrive in all associations, and their limit. For threads."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._lock = threading.Lock()

    def take(self, size: int) -> None:
        """Raise LimitExceeded if the data sets of all associations are too large together."""
        with self._lock:
            if self._free < size:
                raise LimitExceeded("object_memory")
            self._free -= size

    def give_back(self, size: int) -> None:
        with self._lock:
            self._free += size


@dataclass(slots=True)
class PduLimits:
    """The limits of a connection."""

    max_pdu: int
    request_seconds: float
    message_seconds: float
    memory: MemoryBudget


@dataclass(slots=True)
class PduStream:
    """
    Follows the PDUs of a connection. Raises LimitExceeded.

    `max_data_sets` are bytes by presentation context.
    """

    limits: PduLimits
    clock: Callable[[], float] = time.monotonic
    is_associated: bool = False
    max_data_sets: dict[int, int] = field(default_factory=dict)
    _head: bytes = b""
    _kind: int = 0
    _left: int = 0
    _value_head: bytes = b""
    _value_left: int = 0
    _context: int = 0
    _control: int = 0
    _command: int = 0
    _data_set: int = 0
    _began: float | None = None
    """When the unfinished PDU or message began."""
    _is_broken: bool = False

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
        """Count bytes that were received."""
        if self._is_broken:
            raise LimitExceeded("unknown PDU")
        if self._began is None:
            self._began = self.clock()
        at = 0
        while at < len(data):
            if self._left:
                part = data[at : at + self._left]
                self._left -= len(part)
                if self._kind == _P_DATA:
                    self._count(part)
            else:
                part = data[at : at + _HEAD - len(self._head)]
                self._head += part
                if len(self._head) == _HEAD:
                    self._begin(self._head[0], int.from_bytes(self._head[2:], "big"))
                    self._head = b""
            at += len(part)
        if not (self._left or self._head or self._command or self._data_set):
            self._began = None

    def close(self) -> None:
        """Give back the memory of an unfinished message."""
        self.limits.memory.give_back(self._data_set)
        self._data_set = 0

    def _begin(self, kind: int, length: int) -> None:
        self._is_broken = not 0 < kind <= _LAST_TYPE
        limits = {_ASSOCIATE_RQ: _MAX_REQUEST, _P_DATA: self.limits.max_pdu}
        if not self._is_broken and length > limits.get(kind, _MAX_OTHER):
            raise LimitExceeded("max_pdu")
        self._kind, self._left = kind, length
        self._value_head, self._value_left = b"", 0

    def _count(self, part: bytes) -> None:
        """Count the parts of presentation data values in a P-DATA-TF PDU."""
        at = 0
        while at < len(part):
            if not self._value_left:
                head = part[at : at + _HEAD - len(self._value_head)]
                self._value_head += head
                at += len(head)
                if len(self._value_head) < _HEAD:
                    return
                size = int.from_bytes(self._value_head[:4], "big")
                self._context, self._control = self._value_head[4:]
                self._value_head = b""
                self._value_left = max(0, size - 2)
            size = min(self._value_left, len(part) - at)
            self._value_left -= size
            at += size
            self._add(size)

    def _add(self, size: int) -> None:
        is_last = self._control & _LAST and not self._value_left
        if self._control & _COMMAND:
            self._command = 0 if is_last else self._command + size
            if self._command > _MAX_COMMAND:
                raise LimitExceeded("command")
            return
        if self._data_set + size > self.max_data_sets.get(self._context, 0):
            raise LimitExceeded("data set")
        self.limits.memory.take(size)
        self._data_set += size
        if is_last:
            self.close()


class _Limited:
    """The part of a connection's socket that counts what it receives."""

    stream: PduStream | None = None
    on_limit: Callable[[str], object] | None = None

    def recv(self, size: int, flags: int = 0) -> bytes:
        stream = self.stream
        if stream is None:
            return bytes(super().recv(size, flags))  # type: ignore[misc]  # of the socket
        try:
            self.settimeout(stream.seconds_left())  # type: ignore[attr-defined]  # of the socket
            try:
                data: bytes = super().recv(size, flags)  # type: ignore[misc]  # of the socket
            except TimeoutError:
                stream.seconds_left()
                raise
            stream.feed(data)
        except LimitExceeded as error:
            stream.close()
            if self.on_limit is not None:
                self.on_limit(str(error))
            self._end()
            raise
        self.settimeout(stream.limits.message_seconds)  # type: ignore[attr-defined]  # as above
        return data

    def _end(self) -> None:
        try:
            self.shutdown(socket.SHUT_RDWR)  # type: ignore[attr-defined]  # of the socket
        except OSError:
            return

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
    stream = PduStream(limits)
    connection.stream, connection.on_limit = stream, on_limit
    return stream
