"""Replies leave at once where the socket takes them, and in order where it does not."""

from mllp.wire import Outlet


class Slow:
    """A transport whose socket takes so many bytes, and which buffers what is written to it."""

    def __init__(self, takes: int) -> None:
        self.takes = takes
        self.sent = b""
        self.buffered = b""

    def writeSomeData(self, data: bytes) -> int | Exception:  # noqa: N802  # Twisted's name
        """Send what the socket takes; a lost connection is told as a value."""
        if self.takes < 0:
            return ConnectionError()
        part = data[: self.takes]
        self.takes -= len(part)
        self.sent += part
        return len(part)

    def write(self, data: bytes) -> None:
        """Keep for later."""
        self.buffered += data


def test_a_reply_leaves_at_once() -> None:
    """Nothing is left for the reactor to do."""
    wire = Slow(100)
    Outlet(wire).write(b"reply")  # type: ignore[arg-type]  # as much of a transport as is used
    assert (wire.sent, wire.buffered) == (b"reply", b"")


def test_what_the_socket_does_not_take_keeps_its_order() -> None:
    """The rest waits in the transport, and everything after it does too."""
    wire = Slow(7)
    outlet = Outlet(wire)  # type: ignore[arg-type]
    outlet.write(b"first")
    outlet.write(b"second")
    wire.takes = 100
    outlet.write(b"third")
    assert (wire.sent, wire.buffered) == (b"firstse", b"condthird")


def test_a_lost_connection_is_the_transports_business() -> None:
    """It learns of the loss, and tells the connection."""
    wire = Slow(-1)
    Outlet(wire).write(b"reply")  # type: ignore[arg-type]
    assert (wire.sent, wire.buffered) == (b"", b"reply")
