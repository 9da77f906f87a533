"""TLS on real sockets, against the standard library's."""

import socket
import ssl
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.eventually import PATIENCE
from tests.mllp.certificates import Certificates
from tests.mllp.process import Live

Start = Callable[..., Live]


def ask(server: Live, context: ssl.SSLContext, payload: bytes = b"A") -> bytes:
    """Send a payload with the standard library's TLS client, and return all received bytes."""
    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as wire,
    ):
        wire.sendall(b"\x0b" + payload + b"\x1c\r")
        return wire.recv(100)


class TestServer:
    """Our server."""

    def test_a_trusting_client(self, live: Start, certificates: Certificates) -> None:
        """A client that trusts the authority gets its reply."""
        context = ssl.create_default_context(cafile=certificates.ca)

        assert ask(live("serve", **certificates.server), context) == b"\x0ba\x1c\r"

    def test_a_client_without_trust(self, live: Start, certificates: Certificates) -> None:
        """A failed handshake closes the connection and is reported."""
        server = live("serve", **certificates.server)

        with pytest.raises(ssl.SSLCertVerificationError):
            ask(server, ssl.create_default_context(cafile=certificates.untrusted_ca))
        assert server.next() == ["handshake failed"]

    def test_an_old_client(self, live: Start, certificates: Certificates) -> None:
        """The server refuses TLS 1.1."""
        context = ssl.create_default_context(cafile=certificates.ca)
        context.set_ciphers("ALL:@SECLEVEL=0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # expected
            context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1

        with pytest.raises(ssl.SSLError, match=r"(?i)alert.protocol.version"):
            ask(live("serve", **certificates.server), context)

    def test_plain_text(self, live: Start, certificates: Certificates) -> None:
        """The server does not read plain text as a frame."""
        server = live("serve", **certificates.server)
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as wire:
            wire.sendall(b"\x0bA\x1c\r" * 10)
            try:
                received_bytes = wire.recv(100)
            except ConnectionResetError:
                received_bytes = b""

        assert b"\x0b" not in received_bytes
        assert server.next() == ["handshake failed"]

    def test_no_handshake(self, live: Start, certificates: Certificates) -> None:
        """The frame time-out applies to the handshake."""
        server = live("serve", **certificates.server, limits={"frame_timeout": 0.2})
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE):
            assert server.next() == ["handshake failed"]

    def test_mutual(self, live: Start, certificates: Certificates) -> None:
        """With a client authority, a client with a certificate of it gets a reply."""
        context = ssl.create_default_context(cafile=certificates.ca)
        context.load_cert_chain(certificates.client_certificate, certificates.client_key)

        assert (
            ask(live("serve", **certificates.server, client_ca=certificates.ca), context)
            == b"\x0ba\x1c\r"
        )

    @pytest.mark.parametrize("shown", ["none", "of another authority"])
    def test_mutual_without_trust(
        self, live: Start, certificates: Certificates, shown: str
    ) -> None:
        """A client without a certificate, or with one of another authority, gets no reply."""
        server = live("serve", **certificates.server, client_ca=certificates.ca)
        context = ssl.create_default_context(cafile=certificates.ca)
        if shown != "none":
            certificates.untrusted_authority.issue_cert("client.example").configure_cert(context)

        try:
            received_bytes = ask(server, context)
        except (ssl.SSLError, ConnectionResetError):
            received_bytes = b""  # under TLS 1.3 the refusal is an end or an alert

        assert received_bytes == b""
        assert server.next() == ["handshake failed"]

    def test_the_connection_limit(self, live: Start, certificates: Certificates) -> None:
        """The connection limit applies to TLS connections."""
        server = live("serve", **certificates.server, limits={"max_connections": 1})
        context = ssl.create_default_context(cafile=certificates.ca)
        hello = ssl.MemoryBIO()
        with pytest.raises(ssl.SSLWantReadError):
            context.wrap_bio(ssl.MemoryBIO(), hello, server_hostname="127.0.0.1").do_handshake()
        with (
            socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE),
            socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as second,
        ):
            received_bytes = b""
            with suppress(ConnectionError):
                second.sendall(hello.read())
                received_bytes = second.recv(100)
            assert received_bytes == b""
            assert server.next() == ["refused"]

    def test_a_window_full_of_large_frames(self, live: Start, certificates: Certificates) -> None:
        """TLS connections have back-pressure, and replies keep their order."""
        server = live("serve", **certificates.server, limits={"window": 2})
        context = ssl.create_default_context(cafile=certificates.ca)
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

    def test_a_refusal_under_tls(self, live: Start, certificates: Certificates) -> None:
        """A frame that is too large gets a refusal under TLS."""
        server = live("serve", **certificates.server, limits={"max_frame": 10})
        context = ssl.create_default_context(cafile=certificates.ca)

        assert ask(server, context, b"MSH|" + b"x" * 50_000) == b"\x0bFrameTooLarge MSH|\x1c\r"


class TestClient:
    """Our client."""

    def test_against_our_server(self, live: Start, certificates: Certificates) -> None:
        """Client and server verify each other, and close cleanly."""
        server = live("serve", **certificates.server, client_ca=certificates.ca)
        for name in ("127.0.0.1", "ris.example"):
            client = live(
                "send",
                **certificates.client,
                port=server.port,
                ca=certificates.ca,
                server_name=name,
                payloads=["A", "B"],
            )
            assert client.rest() == [["reply", "a"], ["reply", "b"], ["closed", 0]]

    def test_the_wrong_name(self, live: Start, certificates: Certificates) -> None:
        """The client sends nothing to a server with another name."""
        server = live("serve", **certificates.server)
        client = live(
            "send", port=server.port, ca=certificates.ca, server_name="pacs.example", payloads=["A"]
        )

        event = client.next()
        assert event[0] == "NotConnected"
        assert "VerificationError" in event[1] or "certificate verify failed" in event[1]

    def test_the_wrong_authority(self, live: Start, certificates: Certificates) -> None:
        """The client sends nothing to a server with an untrusted certificate."""
        server = live("serve", **certificates.server)
        client = live(
            "send",
            port=server.port,
            ca=certificates.untrusted_ca,
            server_name="127.0.0.1",
            payloads=["A"],
        )

        event = client.next()
        assert event[0] == "NotConnected"
        assert "certificate verify failed" in event[1]

    def test_a_server_without_tls(self, live: Start, certificates: Certificates) -> None:
        """The client sends nothing in plain text."""
        with socket.create_server(("127.0.0.1", 0)) as listening:
            received: list[bytes] = []
            server = threading.Thread(target=plain_answer, args=(listening, received))
            server.start()
            client = live(
                "send",
                port=listening.getsockname()[1],
                ca=certificates.ca,
                server_name="127.0.0.1",
                payloads=["SECRET"],
            )

            assert client.next()[0] == "NotConnected"
            server.join()
        assert b"SECRET" not in received[0]


def plain_answer(listening: socket.socket, received: list[bytes]) -> None:
    """Reply to the first bytes with a frame in plain text."""
    wire, _ = listening.accept()
    with wire:
        received.append(wire.recv(65536))
        wire.sendall(b"\x0bAA\x1c\r")
