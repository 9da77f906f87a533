"""TLS on real sockets, against the standard library's."""

import socket
import ssl
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.eventually import PATIENCE
from tests.mllp.certificates import Papers
from tests.mllp.process import Live

Start = Callable[..., Live]


def ask(server: Live, context: ssl.SSLContext, payload: bytes = b"A") -> bytes:
    """Send a payload as a client of the standard library's; return all bytes that come."""
    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as wire,
    ):
        wire.sendall(b"\x0b" + payload + b"\x1c\r")
        return wire.recv(100)


class TestServer:
    """Our server."""

    def test_a_trusting_client(self, live: Start, papers: Papers) -> None:
        """Gets its reply."""
        context = ssl.create_default_context(cafile=papers.ca)

        assert ask(live("serve", **papers.server), context) == b"\x0ba\x1c\r"

    def test_a_client_that_trusts_others(self, live: Start, papers: Papers) -> None:
        """A failed handshake closes the connection and is reported."""
        server = live("serve", **papers.server)

        with pytest.raises(ssl.SSLCertVerificationError):
            ask(server, ssl.create_default_context(cafile=papers.strange_ca))
        assert server.next() == ["handshake failed"]

    def test_an_old_client(self, live: Start, papers: Papers) -> None:
        """TLS 1.1 is too old."""
        context = ssl.create_default_context(cafile=papers.ca)
        context.set_ciphers("ALL:@SECLEVEL=0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # as it should
            context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1

        with pytest.raises(ssl.SSLError, match=r"(?i)alert.protocol.version"):
            ask(live("serve", **papers.server), context)

    def test_plain_text(self, live: Start, papers: Papers) -> None:
        """Plain text is not taken for a frame."""
        server = live("serve", **papers.server)
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as wire:
            wire.sendall(b"\x0bA\x1c\r" * 10)
            try:
                answer = wire.recv(100)
            except ConnectionResetError:
                answer = b""

        assert b"\x0b" not in answer
        assert server.next() == ["handshake failed"]

    def test_a_handshake_that_does_not_come(self, live: Start, papers: Papers) -> None:
        """Has as much time as a frame."""
        server = live("serve", **papers.server, limits={"frame_timeout": 0.2})
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE):
            assert server.next() == ["handshake failed"]

    def test_mutual(self, live: Start, papers: Papers) -> None:
        """With a client authority, a client with its certificate gets a reply."""
        context = ssl.create_default_context(cafile=papers.ca)
        context.load_cert_chain(papers.client_certificate, papers.client_key)

        assert ask(live("serve", **papers.server, client_ca=papers.ca), context) == b"\x0ba\x1c\r"

    @pytest.mark.parametrize("shown", ["nothing", "a stranger's"])
    def test_mutual_without_trust(self, live: Start, papers: Papers, shown: str) -> None:
        """A client without a certificate, or with another authority's, gets none."""
        server = live("serve", **papers.server, client_ca=papers.ca)
        context = ssl.create_default_context(cafile=papers.ca)
        if shown != "nothing":
            papers.stranger.issue_cert("client.example").configure_cert(context)

        try:
            answer = ask(server, context)
        except (ssl.SSLError, ConnectionResetError):
            answer = b""  # under TLS 1.3 the refusal may come as an end, or as an alert

        assert answer == b""
        assert server.next() == ["handshake failed"]

    def test_the_connection_limit(self, live: Start, papers: Papers) -> None:
        """Holds under TLS, too."""
        server = live("serve", **papers.server, limits={"max_connections": 1})
        context = ssl.create_default_context(cafile=papers.ca)
        hello = ssl.MemoryBIO()
        with pytest.raises(ssl.SSLWantReadError):
            context.wrap_bio(ssl.MemoryBIO(), hello, server_hostname="127.0.0.1").do_handshake()
        with (
            socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE),
            socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as second,
        ):
            answer = b""
            with suppress(ConnectionError):
                second.sendall(hello.read())
                answer = second.recv(100)
            assert answer == b""
            assert server.next() == ["refused"]

    def test_a_window_full_of_large_frames(self, live: Start, papers: Papers) -> None:
        """Back-pressure and order hold under TLS."""
        server = live("serve", **papers.server, limits={"window": 2})
        context = ssl.create_default_context(cafile=papers.ca)
        with (
            socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as wire,
        ):
            for number in range(20):
                wire.sendall(b"\x0b" + b"x" * (100_000 + number) + b"\x1c\r")
            wire.sendall(b"\x0bSLOW\x1c\r" * 3)
            data = b""
            while data.count(b"\x1c\r") < 23:
                part = wire.recv(65536)
                assert part
                data += part

        expected = [b"%d" % (100_000 + number) for number in range(20)] + [b"slow"] * 3
        assert data == b"".join(b"\x0b" + one + b"\x1c\r" for one in expected)

    def test_the_farewell_under_tls(self, live: Start, papers: Papers) -> None:
        """A frame that is too large gets a refusal under TLS too."""
        server = live("serve", **papers.server, limits={"max_frame": 10})
        context = ssl.create_default_context(cafile=papers.ca)

        assert ask(server, context, b"MSH|" + b"x" * 50_000) == b"\x0bFrameTooLarge MSH|\x1c\r"


class TestClient:
    """Our client."""

    def test_against_our_server(self, live: Start, papers: Papers) -> None:
        """Both sides prove who they are; the close is clean."""
        server = live("serve", **papers.server, client_ca=papers.ca)
        for name in ("127.0.0.1", "ris.example"):
            client = live(
                "send",
                **papers.client,
                port=server.port,
                ca=papers.ca,
                server_name=name,
                payloads=["A", "B"],
            )
            assert client.rest() == [["reply", "a"], ["reply", "b"], ["closed", 0]]

    def test_the_wrong_name(self, live: Start, papers: Papers) -> None:
        """Nothing is sent to a server with another name."""
        server = live("serve", **papers.server)
        client = live(
            "send", port=server.port, ca=papers.ca, server_name="pacs.example", payloads=["A"]
        )

        told = client.next()
        assert told[0] == "NotConnected"
        assert "VerificationError" in told[1] or "certificate verify failed" in told[1]

    def test_the_wrong_authority(self, live: Start, papers: Papers) -> None:
        """Nothing is sent to a server with an untrusted certificate."""
        server = live("serve", **papers.server)
        client = live(
            "send", port=server.port, ca=papers.strange_ca, server_name="127.0.0.1", payloads=["A"]
        )

        told = client.next()
        assert told[0] == "NotConnected"
        assert "certificate verify failed" in told[1]

    def test_a_server_without_tls(self, live: Start, papers: Papers) -> None:
        """Nothing is sent in plain text."""
        with socket.create_server(("127.0.0.1", 0)) as listening:
            seen: list[bytes] = []
            server = threading.Thread(target=plain_answer, args=(listening, seen))
            server.start()
            client = live(
                "send",
                port=listening.getsockname()[1],
                ca=papers.ca,
                server_name="127.0.0.1",
                payloads=["SECRET"],
            )

            assert client.next()[0] == "NotConnected"
            server.join()
        assert b"SECRET" not in seen[0]


def plain_answer(listening: socket.socket, seen: list[bytes]) -> None:
    """Answer whatever comes with a frame in plain text."""
    wire, _ = listening.accept()
    with wire:
        seen.append(wire.recv(65536))
        wire.sendall(b"\x0bAA\x1c\r")
