"""
An MLLP proxy that injects faults between a sender and the product, or the product and a receiver.

A fault is a function of one message and of `forward`, which sends to the target. It returns the
reply for the client. It may drop, delay, change or duplicate a message. None cuts the connection.
"""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tests.acceptance.wire import FS_CR, VT, Sender, ack, control_id

Forward = Callable[[bytes], bytes | None]
"""Sends a message to the target; returns its reply."""

Fault = Callable[[Forward, bytes], bytes | None]


def pass_on(forward: Forward, message: bytes) -> bytes | None:
    """No fault."""
    return forward(message)


class Proxy:
    """A proxy before a local port."""

    def __init__(self, target: int, fault: Fault = pass_on) -> None:
        self.target, self.fault = target, fault
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        """Accept no more connections."""
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        buffer = b""
        with connection, suppress(OSError):
            while data := connection.recv(65536):
                buffer += data
                while FS_CR in buffer:
                    frame, buffer = buffer.split(FS_CR, 1)
                    reply = self.fault(self._forward, frame.lstrip(VT))
                    if reply is None:
                        return
                    connection.sendall(VT + reply + FS_CR)

    def _forward(self, message: bytes) -> bytes | None:
        with Sender(self.target) as sender:
            return sender.ask(message)


@contextmanager
def proxy(target: int, fault: Fault = pass_on) -> Iterator[Proxy]:
    """Run a proxy for the length of a test."""
    running = Proxy(target, fault)
    try:
        yield running
    finally:
        running.stop()


def renamed(message: bytes, name: bytes) -> bytes:
    """Return a message with another control id."""
    return message.replace(b"|" + control_id(message) + b"|", b"|" + name + b"|", 1)


def lose(_forward: Forward, message: bytes) -> bytes:
    """Acknowledge a message and drop it."""
    return ack(message)


def answer_nothing(_forward: Forward, _message: bytes) -> None:
    """Drop a message and cut the connection."""
    return


def double(forward: Forward, message: bytes) -> bytes | None:
    """Forward a second copy under another control id, for another patient."""
    copy = renamed(message, control_id(message) + b"-2").replace(b"|1||M", b"|1||N", 1)
    forward(copy)
    return forward(message)


class Swap:
    """Acknowledge the message number `first`, and forward it after the next one."""

    def __init__(self, first: int) -> None:
        self._until = first
        self._held = b""

    def __call__(self, forward: Forward, message: bytes) -> bytes | None:
        """Handle a message."""
        self._until -= 1
        if not self._until:
            self._held = message
            return ack(message)
        reply = forward(message)
        if self._held:
            forward(self._held)
            self._held = b""
        return reply


class Repeat:
    """Cut the connection after the first message, and change its repetition."""

    def __init__(self, change: Callable[[bytes], bytes]) -> None:
        self._change = change
        self._first = b""

    def __call__(self, forward: Forward, message: bytes) -> bytes | None:
        """Handle a message."""
        if not self._first:
            self._first = message
            forward(message)
            return None
        if message != self._first:
            return forward(message)
        forward(self._change(message))
        return ack(message)


class OldAgain:
    """Forward the first message once more after the second one."""

    def __init__(self) -> None:
        self._first = b""

    def __call__(self, forward: Forward, message: bytes) -> bytes | None:
        """Handle a message."""
        reply = forward(message)
        if self._first:
            forward(self._first)
        self._first = self._first or message
        return reply
