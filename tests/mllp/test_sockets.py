"""Our server and client on real sockets, against the standard library's."""

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mllp.transport import ImmediateWriter
from tests.eventually import PATIENCE
from tests.mllp.process import ROOT, Live

Start = Callable[..., Live]


def dial(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)


def everything(wire: socket.socket) -> bytes:
    return b"".join(iter(lambda: wire.recv(65536), b""))


def read(wire: socket.socket, size: int) -> bytes:
    """Read so many bytes."""
    data = b""
    while len(data) < size and (part := wire.recv(size - len(data))):
        data += part
    return data


class TestServer:
    """Our server, on the application's reactor."""

    def test_frames_and_half_close(self, live: Start) -> None:
        """Replies arrive in order, also those that are ready after the sender's half-close."""
        server = live("serve")
        with dial(server.port) as wire:
            wire.sendall(b"\x0bSLOW\x1c\r\r\n\x0bQUICK\x1c\r")
            wire.shutdown(socket.SHUT_WR)

            assert everything(wire) == b"\x0bslow\x1c\r\x0bquick\x1c\r"

        assert server.next() == ["closed"]

    def test_large_frames(self, live: Start) -> None:
        """The server handles a frame of almost 16 MB, and the next one."""
        server = live("serve")
        with dial(server.port) as wire:
            wire.sendall(b"\x0b" + b"x" * 16_000_000 + b"\x1c\r\x0bNEXT\x1c\r")

            assert read(wire, 18) == b"\x0b16000000\x1c\r\x0bnext\x1c\r"[:18]

    def test_a_refusal_arrives_before_the_reset(self, live: Start) -> None:
        """The refusal of a frame that is too large arrives before the reset."""
        server = live("serve", limits={"max_frame": 1000})
        with dial(server.port) as wire:
            sender = threading.Thread(target=flood, args=(wire,))
            sender.start()

            assert everything(wire) == b"\x0bFrameTooLarge MSH|\x1c\r"
            wire.close()
            sender.join()

    def test_a_sender_that_never_reads(self, live: Start) -> None:
        """The server stops reading the sender, and closes after the write time-out."""
        server = live("serve", limits={"write_timeout": 0.5})
        with dial(server.port) as wire:
            wire.settimeout(PATIENCE)
            try:
                while True:
                    wire.sendall((b"\x0b" + b"x" * 90 + b"\x1c\r") * 1000)
            except OSError as error:
                assert not isinstance(error, TimeoutError)  # noqa: PT017  # a time-out also passes
        event = server.next()
        if event[0] == "frame refused":  # depends on how the kernel splits the stream
            assert event == ["frame refused", "TruncatedFrame"]
            event = server.next()
        assert event == ["closed"]

    def test_drain(self, live: Start) -> None:
        """The server answers received frames, then exits."""
        server = live("serve")
        with dial(server.port) as wire, dial(server.port):
            wire.sendall(b"\x0bQUICK\x1c\r\x0bSLOW\x1c\r")
            assert read(wire, 8) == b"\x0bquick\x1c\r"
            assert server.process.stdin is not None
            server.process.stdin.close()

            assert everything(wire) == b"\x0bslow\x1c\r"
        assert server.next() == ["closed"]
        assert server.next() == ["closed"]
        assert server.next() == ["drained"]
        assert server.process.wait(PATIENCE) == 0


def flood(wire: socket.socket) -> None:
    """Send an endless frame until the connection closes."""
    try:
        wire.sendall(b"\x0bMSH|")
        for _ in range(200):
            wire.sendall(b"x" * 100_000)
    except OSError:
        return


class TestClient:
    """Our client, on the application's reactor."""

    def test_against_our_server(self, live: Start) -> None:
        """The client sends three payloads over one connection."""
        server = live("serve")
        client = live("send", port=server.port, payloads=["A", "SLOW", "B"])

        assert client.rest() == [["reply", "a"], ["reply", "slow"], ["reply", "b"], ["closed", 0]]
        assert server.next() == ["closed"]

    def test_a_receiver_that_closes_after_each_reply(self, live: Start) -> None:
        """The client opens a connection for each payload, and loses no reply."""
        with socket.create_server(("127.0.0.1", 0)) as listening:
            served = threading.Thread(target=one_each, args=(listening, 5))
            served.start()
            client = live("send", port=listening.getsockname()[1], payloads=["1"] * 5)

            assert client.rest() == [["reply", "AA"]] * 5 + [["closed", 0]]
            served.join()


def one_each(listening: socket.socket, times: int) -> None:
    """Answer one frame on each connection and close it, in one packet: a later close is a race."""
    for _ in range(times):
        wire, _ = listening.accept()
        with wire:
            wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
            read(wire, 4)
            wire.sendall(b"\x0bAA\x1c\r")


def test_the_command(tmp_path: Path) -> None:
    """`python -m mllp` sends files, keeps what it receives, and prints the replies."""
    (tmp_path / "reply").write_bytes(b"MSA|AA\r")
    (tmp_path / "one").write_bytes(b"MSH|1\r")
    (tmp_path / "two").write_bytes(b"MSH|2\r")
    command = [sys.executable, "-m", "mllp"]
    kept = tmp_path / "kept"
    listen = [*command, "listen", "127.0.0.1:0", "--dir", str(kept)]
    with subprocess.Popen(
        [*listen, "--reply", str(tmp_path / "reply")], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as listener:
        assert listener.stdout is not None
        address = listener.stdout.readline().split()[-1]
        sent = subprocess.run(
            [*command, "send", address, str(tmp_path / "one"), str(tmp_path / "two")],
            cwd=ROOT,
            capture_output=True,
            timeout=PATIENCE,
            check=True,
        )
        listener.terminate()
        output = listener.stdout.read()

    assert sent.stdout == b"MSA|AA\n\nMSA|AA\n\n"
    assert [one.read_bytes() for one in sorted(kept.iterdir())] == [b"MSH|1\r", b"MSH|2\r"]
    assert "frame 2: 6 bytes, kept as 000002.hl7" in output
    refused = subprocess.run(
        [*command, "send", address, str(tmp_path / "one")],
        cwd=ROOT,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert refused.returncode == 1
    assert refused.stderr == b"one: no connection (ConnectionRefusedError): nothing was sent\n"


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
