"""
MLLP with plain sockets and threads: a sender and a sink that share no code with the product.

A function of the message and the number of earlier attempts chooses the sink's reply.
"""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from tests.eventually import PATIENCE, eventually

VT, FS_CR = b"\x0b", b"\x1c\r"


def control_id(message: bytes) -> bytes:
    """MSH-10 of a message with the usual delimiters."""
    return message.split(b"\r", 1)[0].split(message[3:4])[9]


def verdict(reply: bytes | None) -> tuple[str, str]:
    """MSA-1 and MSA-2 of a reply."""
    assert reply is not None, "no reply came"
    fields = segment(reply, b"MSA").split(reply[3:4].decode())
    return fields[1], fields[2]


def segment(message: bytes, name: bytes) -> str:
    """The first segment with a name, decoded; empty if there is none."""
    found = [line for line in message.split(b"\r") if line.startswith(name)]
    return found[0].decode("utf-8", "backslashreplace") if found else ""


def ack(message: bytes, code: bytes = b"AA", about: bytes | None = None) -> bytes:
    about = control_id(message) if about is None else about
    header = b"MSH|^~\\&|SINK|SINK|BRIDGE|BRIDGE|20260101||ACK|A%d|P|2.5.1" % time.monotonic_ns()
    return header + b"\rMSA|" + code + b"|" + about + b"\r"


class Sender:
    def __init__(
        self, port: int, timeout: float = PATIENCE, tls: ssl.SSLContext | None = None
    ) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self.buffer = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def raw(self, data: bytes) -> None:
        """Send bytes unframed."""
        self.socket.sendall(data)

    def post(self, *messages: bytes) -> None:
        self.raw(b"".join(VT + message + FS_CR for message in messages))

    def reply(self, timeout: float | None = None) -> bytes | None:
        """Wait for one framed reply; None if the connection ends or the timeout expires."""
        if timeout is not None:
            self.socket.settimeout(timeout)
        while FS_CR not in self.buffer:
            try:
                data = self.socket.recv(65536)
            except (TimeoutError, ConnectionError):
                return None
            if not data:
                return None
            self.buffer += data
        frame, self.buffer = self.buffer.split(FS_CR, 1)
        return frame.lstrip(VT)

    def replies(self, quiet: float = 0.5) -> list[bytes]:
        """All replies until none arrives for `quiet` seconds."""
        found = []
        while (reply := self.reply(quiet)) is not None:
            found.append(reply)
        return found

    def ask(self, message: bytes, timeout: float | None = None) -> bytes | None:
        self.post(message)
        return self.reply(timeout)


Answer = Callable[[bytes, int], bytes | None]
"""(message, earlier attempts) -> bytes to write; b'': no reply; None: cut the connection."""


def accept(message: bytes, attempts: int) -> bytes:
    return VT + ack(message) + FS_CR


@dataclass
class Sink:
    """A receiver of results that records all messages in order."""

    answer: Answer = accept
    tls: ssl.SSLContext | None = None
    received: list[bytes] = field(default_factory=list)
    acknowledged: list[bytes] = field(default_factory=list)
    connections: int = 0

    def __post_init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.settimeout(0.2)
        self.port: int = self._server.getsockname()[1]
        self._open = True
        self._attempts: dict[bytes, int] = {}
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        self._open = False
        self._server.close()

    def wait(self, count: int, patience: float = PATIENCE) -> list[bytes]:
        """Wait until `count` messages have arrived; return all messages."""
        with suppress(AssertionError):
            eventually(lambda: len(self.received) >= count, patience)
        return list(self.received)

    def about(self, text: str, count: int = 1) -> list[bytes]:
        """Wait for `count` messages that contain a text; return all such messages."""

        def found() -> list[bytes]:
            return [message for message in list(self.received) if text.encode() in message]

        with suppress(AssertionError):
            eventually(lambda: len(found()) >= count)
        return found()

    def _accept(self) -> None:
        while self._open:
            try:
                connection, _ = self._server.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            self.connections += 1
            if self.tls is not None:
                try:
                    connection = self.tls.wrap_socket(connection, server_side=True)
                except OSError:
                    continue
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        buffer = b""
        with connection:
            while self._open:
                try:
                    data = connection.recv(65536)
                except OSError:
                    return
                if not data:
                    return
                buffer += data
                while FS_CR in buffer:
                    frame, buffer = buffer.split(FS_CR, 1)
                    if not self._answered(connection, frame.lstrip(VT)):
                        return

    def _answered(self, connection: socket.socket, message: bytes) -> bool:
        attempts = self._attempts.get(message, 0)
        self._attempts[message] = attempts + 1
        self.received.append(message)
        reply = self.answer(message, attempts)
        if reply is None:
            return False
        if reply:
            connection.sendall(reply)
            if b"|AA|" + control_id(message) in reply:
                self.acknowledged.append(message)
        return True


@contextmanager
def sink(answer: Answer = accept, tls: ssl.SSLContext | None = None) -> Iterator[Sink]:
    running = Sink(answer, tls)
    try:
        yield running
    finally:
        running.stop()
