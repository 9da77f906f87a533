"""Replies are written to the socket at once, and stay in order if it is full."""

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
        """Give the socket."""
        return self.handle

    def write(self, data: bytes) -> None:
        """Keep for later."""
        self.buffered += data


@pytest.fixture
def ends() -> Iterator[tuple[Transport, socket.socket]]:
    """A transport, and the peer's end of its connection."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    with ours, theirs:
        yield Transport(ours), theirs


def arrived(theirs: socket.socket) -> bytes:
    """Read all that the socket took."""
    found = b""
    try:
        while part := theirs.recv(2**16):
            found += part
    except BlockingIOError:
        pass
    return found


def test_a_reply_leaves_at_once(ends: tuple[Transport, socket.socket]) -> None:
    """Nothing is left for the reactor to do."""
    wire, theirs = ends
    ImmediateWriter(wire).write(b"reply")  # type: ignore[arg-type]  # as much of a transport as is used
    assert (arrived(theirs), wire.buffered) == (b"reply", b"")


def test_what_the_socket_does_not_take_keeps_its_order(
    ends: tuple[Transport, socket.socket],
) -> None:
    """The rest waits in the transport, and everything after it does too."""
    wire, theirs = ends
    outlet = ImmediateWriter(wire)  # type: ignore[arg-type]
    outlet.write(MORE_THAN_FITS + b"first")
    sent = arrived(theirs)
    outlet.write(b"second")
    assert 0 < len(sent) < len(MORE_THAN_FITS)
    assert arrived(theirs) == b"", "there is room now, but others are before it"
    assert sent + wire.buffered == MORE_THAN_FITS + b"firstsecond"


def test_a_lost_connection_is_the_transports_business(
    ends: tuple[Transport, socket.socket],
) -> None:
    """It learns of the loss, and tells the connection."""
    wire, theirs = ends
    theirs.close()
    ImmediateWriter(wire).write(b"reply")  # type: ignore[arg-type]
    assert wire.buffered == b"reply"
