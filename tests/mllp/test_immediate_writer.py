"""The server writes replies to the socket at once, and keeps their order if the socket is full."""

import socket
from collections.abc import Iterator

import pytest

from mllp.transport import ImmediateWriter

MORE_THAN_FITS = b"x" * 2**22


class Transport:
    """A transport on a real socket that records writes."""

    def __init__(self, handle: socket.socket) -> None:
        self.handle = handle
        self.buffered = b""

    def getHandle(self) -> socket.socket:  # noqa: N802  # Twisted's name
        return self.handle

    def write(self, data: bytes) -> None:
        self.buffered += data


@pytest.fixture
def ends() -> Iterator[tuple[Transport, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    with ours, theirs:
        yield Transport(ours), theirs


def arrived(theirs: socket.socket) -> bytes:
    """Read all bytes that the socket accepted."""
    received = b""
    try:
        while part := theirs.recv(2**16):
            received += part
    except BlockingIOError:
        pass
    return received


def test_a_reply_leaves_at_once(ends: tuple[Transport, socket.socket]) -> None:
    """The writer leaves nothing for the reactor."""
    wire, theirs = ends
    ImmediateWriter(wire).write(b"reply")  # type: ignore[arg-type]  # as much of a transport as is used
    assert (arrived(theirs), wire.buffered) == (b"reply", b"")


def test_a_full_socket_keeps_the_order(
    ends: tuple[Transport, socket.socket],
) -> None:
    """The transport buffers the rest, and everything that follows."""
    wire, theirs = ends
    outlet = ImmediateWriter(wire)  # type: ignore[arg-type]
    outlet.write(MORE_THAN_FITS + b"first")
    sent = arrived(theirs)
    outlet.write(b"second")
    assert 0 < len(sent) < len(MORE_THAN_FITS)
    assert arrived(theirs) == b"", "the socket has room, but the transport holds earlier bytes"
    assert sent + wire.buffered == MORE_THAN_FITS + b"firstsecond"


def test_a_lost_connection(
    ends: tuple[Transport, socket.socket],
) -> None:
    """The transport detects the loss, and reports it to the connection."""
    wire, theirs = ends
    theirs.close()
    ImmediateWriter(wire).write(b"reply")  # type: ignore[arg-type]
    assert wire.buffered == b"reply"
