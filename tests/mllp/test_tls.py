"""TLS on real sockets, against the standard library's."""

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from mllp import TLSConfigurationError
from mllp.tls import ReloadingOptions, client_options, server_options
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
    def test_a_trusting_client(self, live: Start, certificates: Certificates) -> None:
        """A client that trusts the authority gets its reply."""
        context = ssl.create_default_context(cafile=certificates.ca)

        assert ask(live("serve", **certificates.server), context) == b"\x0ba\x1c\r"

    def test_a_client_without_trust(self, live: Start, certificates: Certificates) -> None:
        """A failed handshake closes the connection and is reported."""
        server = live("serve", **certificates.server)

        with pytest.raises(ssl.SSLCertVerificationError):
            ask(server, ssl.create_default_context(cafile=certificates.untrusted_ca))
        assert "does not trust our certificate" in failed(server)

    def test_plain_text(self, live: Start, certificates: Certificates) -> None:
        server = live("serve", **certificates.server)
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as wire:
            wire.sendall(b"\x0bA\x1c\r" * 10)
            try:
                received_bytes = wire.recv(100)
            except ConnectionResetError:
                received_bytes = b""

        assert b"\x0b" not in received_bytes
        assert "plain text" in failed(server)

    def test_no_handshake(self, live: Start, certificates: Certificates) -> None:
        """The frame time-out applies to the handshake."""
        server = live("serve", **certificates.server, limits={"frame_timeout": 0.2})
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE):
            assert "within 0.2 s" in failed(server)

    def test_a_peer_that_just_leaves(self, live: Start, certificates: Certificates) -> None:
        """A health check or port scan is named as what it is."""
        server = live("serve", **certificates.server)
        socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE).close()
        assert "closed the connection before" in failed(server)

    @pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
    @pytest.mark.parametrize(
        ("shown", "words"),
        [
            ("none", "sent no certificate"),
            ("of another authority", "unknown authority (CN="),
            ("expired", "certificate has expired (CN=client.example, since 2001-02-03"),
            ("self-signed", "self-signed certificate (CN=client.example"),
        ],
    )
    def test_mutual_without_trust(
        self,
        live: Start,
        certificates: Certificates,
        tmp_path: Path,
        shown: str,
        words: str,
        version: ssl.TLSVersion,
    ) -> None:
        """A client without a trusted certificate gets no reply, and the reason is said in words."""
        server = live("serve", **certificates.server, client_ca=certificates.ca)
        context = ssl.create_default_context(cafile=certificates.ca)
        context.minimum_version = context.maximum_version = version
        if shown == "expired":
            since = datetime(2001, 2, 3, tzinfo=UTC)
            certificates.authority.issue_cert(
                "client.example",
                common_name="client.example",
                not_before=datetime(2001, 2, 2, tzinfo=UTC),
                not_after=since,
            ).configure_cert(context)
        elif shown == "of another authority":
            certificates.untrusted_authority.issue_cert(
                "client.example", common_name="client.example"
            ).configure_cert(context)
        elif shown == "self-signed":
            context.load_cert_chain(self_signed(tmp_path, "client.example"))

        try:
            received_bytes = ask(server, context)
        except (ssl.SSLError, ConnectionResetError):
            received_bytes = b""  # under TLS 1.3 the refusal is an end or an alert

        assert received_bytes == b""
        assert words in failed(server)

    def test_the_connection_limit(self, live: Start, certificates: Certificates) -> None:
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

            event = client.next()
            assert event[0] == "NotConnected"
            assert "plain text" in event[1]
            server.join()
        assert b"SECRET" not in received[0]


def failed(server: Live) -> str:
    event, reason, _ = server.next()
    assert event == "handshake failed"
    return str(reason)


def self_signed(folder: Path, name: str) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2100, 1, 1, tzinfo=UTC))
        .sign(key, hashes.SHA256())
    )
    path = folder / "self-signed.pem"
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(private + certificate.public_bytes(Encoding.PEM))
    return path


def plain_answer(listening: socket.socket, received: list[bytes]) -> None:
    """Reply to the first bytes with a frame in plain text."""
    wire, _ = listening.accept()
    with wire:
        received.append(wire.recv(65536))
        wire.sendall(b"\x0bAA\x1c\r")


class TestSettings:
    @pytest.mark.parametrize(
        ("certificate", "key", "message"),
        [
            ("nowhere", "key", r"tls.certificate: cannot be read: No such .*nowhere"),
            ("key", "key", r"tls.certificate: holds no certificate"),
            ("certificate", "certificate", r"tls.key: is no private key"),
            ("certificate", "client_key", r"tls.key: does not belong"),
        ],
    )
    def test_wrong_files(
        self, certificates: Certificates, certificate: str, key: str, message: str
    ) -> None:
        one, other = (Path(getattr(certificates, item, item)) for item in (certificate, key))
        with pytest.raises(TLSConfigurationError, match=message):
            server_options(one, other)

    def test_an_encrypted_key(self, certificates: Certificates, tmp_path: Path) -> None:
        from cryptography.hazmat.primitives import serialization as form  # noqa: PLC0415  # only here

        key = form.load_pem_private_key(Path(certificates.key).read_bytes(), None)
        locked = tmp_path / "locked"
        locked.write_bytes(
            key.private_bytes(
                form.Encoding.PEM,
                form.PrivateFormat.PKCS8,
                form.BestAvailableEncryption(b"invented"),
            )
        )

        with pytest.raises(TLSConfigurationError, match=r"tls.key: is protected by a passphrase"):
            server_options(Path(certificates.certificate), locked)

    def test_the_authorities(self, certificates: Certificates) -> None:
        """The error names the setting of the authorities, on client and server."""
        with pytest.raises(TLSConfigurationError, match=r"tls.client_ca: holds no certificate"):
            server_options(
                Path(certificates.certificate), Path(certificates.key), Path(certificates.key)
            )
        with pytest.raises(TLSConfigurationError, match=r"tls.ca: holds no certificate"):
            client_options(Path(certificates.key), None, None, "ris.example")

    def test_half_an_identity(self, certificates: Certificates) -> None:
        """A certificate without its key, or a key without its certificate, is an error."""
        with pytest.raises(TLSConfigurationError, match=r"tls.key: is needed"):
            client_options(None, Path(certificates.certificate), None, "ris.example")
        with pytest.raises(TLSConfigurationError, match=r"tls.certificate: is needed"):
            client_options(None, None, Path(certificates.key), "ris.example")

    def test_no_host_name(self, certificates: Certificates) -> None:
        with pytest.raises(TLSConfigurationError, match=r"tls.server_name: is no host name"):
            client_options(Path(certificates.ca), None, None, "..")

    def test_the_machines_own_authorities(self) -> None:
        """Without `ca` the client uses the authorities of the system."""
        assert client_options(None, None, None, "ris.example")


def test_a_file_that_becomes_readable(tmp_path: Path) -> None:
    """A file becomes valid when its permissions allow to read it."""
    file = tmp_path / "new.pem"
    file.write_bytes(b"old")

    def make() -> bytes:
        if not file.stat().st_mode & 0o400:  # root reads the file in any case
            raise TLSConfigurationError("key", "cannot be read")
        return file.read_bytes()

    errors: list[TLSConfigurationError] = []
    reloading = ReloadingOptions(make, [file], errors.append)
    file.write_bytes(b"new")
    file.chmod(0)

    assert [reloading.options, reloading.options, len(errors)] == [b"old", b"old", 1]
    file.chmod(0o600)
    assert reloading.options == b"new"
