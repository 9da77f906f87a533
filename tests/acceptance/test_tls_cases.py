"""TLS of listeners and destinations: old, expired, revoked and foreign certificates, renewal."""

import json
import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import httpx
import pytest
from cryptography import x509

from tests.acceptance.certificates import Authority, Credential, server
from tests.acceptance.house import House, free_port
from tests.acceptance.orders import order
from tests.acceptance.wire import Sender, Sink, verdict
from tests.eventually import PATIENCE, eventually


@dataclass
class TlsInstallation:
    """An installation with TLS, its authority, and the certificates of clients and receivers."""

    house: House
    authority: Authority
    port: int
    web_port: int
    own: Credential
    clients: dict[str, Credential | None]
    sinks: dict[str, Sink]


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsInstallation]:
    """One service: mutual listeners with a revocation list, and destinations."""
    folder = tmp_path_factory.mktemp("tls")
    authority, foreign = Authority(folder), Authority(folder, "foreign")
    house = House(folder / "home")
    own = authority.issue("bridge")
    clients: dict[str, Credential | None] = {
        "good": authority.issue("good", "ris"),
        "revoked": authority.issue("revoked", "ris"),
        "expired": authority.issue("expired", "ris", (-20, -2)),
        "early": authority.issue("early", "ris", (2, 20)),
        "foreign": foreign.issue("foreign-client", "ris"),
        "none": None,
    }
    revoked = clients["revoked"]
    assert revoked is not None
    crl = authority.revoke("clients", revoked)
    tls = own.files() | {"client_ca": str(authority.file), "client_crl": crl}
    port, web_port = house.listener("mutual", tls=tls), free_port()
    bind = f"https://127.0.0.1:{web_port}/"
    house.listener("web", bind=bind, tls=tls, frame_timeout="3s")
    receivers = {
        "good": authority.issue("sink-good"),
        "expired": authority.issue("sink-expired", days=(-20, -2)),
        "wrong-name": authority.issue("sink-wrong", "elsewhere"),
        "revoked": authority.issue("sink-revoked"),
        "foreign": foreign.issue("sink-foreign"),
        "common": authority.issue("sink-common", names=()),
        "nameless": authority.issue("sink-nameless", "elsewhere", names=()),
        "no-name": authority.issue("sink-no-name", names=["127.0.0.1"]),
    }
    servers = authority.revoke("servers", receivers["revoked"])
    sinks = {name: Sink(tls=server(credential)) for name, credential in receivers.items()}
    for name, sink in sinks.items():
        trust = {"ca": str(authority.file), "crl": servers, "server_name": "localhost"}
        house.destination(name, sink.port, tls=trust)
    house.make()
    house.start()
    yield TlsInstallation(house, authority, port, web_port, own, clients, sinks)
    assert house.stop() == 0
    for sink in sinks.values():
        sink.stop()


def ask(installation: TlsInstallation, number: int, context: ssl.SSLContext) -> bytes | None:
    """Send an order; None if there is no reply or the connection ends."""
    try:
        with Sender(installation.port, tls=context) as sender:
            return sender.ask(order(number), timeout=PATIENCE)
    except OSError:
        return None


@pytest.mark.parametrize(
    ("client", "accepted"),
    [
        ("good", True),
        ("revoked", False),
        ("expired", False),
        ("early", False),
        ("foreign", False),
        ("none", False),
    ],
)
def test_accepted_clients(installation: TlsInstallation, client: str, *, accepted: bool) -> None:
    """The listener accepts only a valid, unrevoked certificate of its authority."""
    number = 7001 + list(installation.clients).index(client)
    reply = ask(installation, number, installation.authority.client(installation.clients[client]))
    assert (reply is not None and verdict(reply)[0] == "AA") is accepted
    installation.house.settle()
    assert (installation.house.row(f"A{number}") is not None) is accepted


@pytest.mark.parametrize(
    ("client", "accepted"), [("good", True), ("revoked", False), ("none", False)]
)
def test_accepted_clients_over_https(
    installation: TlsInstallation, client: str, *, accepted: bool
) -> None:
    """An HTTPS listener accepts the same clients as an MLLP listener."""
    context, url = (
        installation.authority.client(installation.clients[client]),
        f"https://localhost:{installation.web_port}/",
    )
    kind = {"content-type": "application/hl7-v2"}
    try:
        reply = httpx.post(url, content=order(7014), headers=kind, verify=context, timeout=PATIENCE)
    except httpx.HTTPError:
        assert not accepted
    else:
        assert accepted
        assert verdict(reply.content) == ("AA", "C7014")


def test_an_unfinished_handshake_times_out_as_a_request(installation: TlsInstallation) -> None:
    """`frame_timeout` limits a TLS handshake, not the longer idle timeout."""
    with socket.create_connection(("127.0.0.1", installation.web_port), timeout=PATIENCE) as wire:
        wire.sendall(bytes.fromhex("1603010200010001fc0303"))
        with suppress(ConnectionResetError):
            assert wire.recv(100) == b""


def test_only_the_right_receiver_gets_results(installation: TlsInstallation) -> None:
    """
    The bridge sends results only to a receiver with a valid certificate for its name.

    The common name counts if the certificate has no other name.
    """
    installation.house.draft("M7020", "A7020", "For the right one.")
    installation.house.sign("M7020", "A7020")
    for right in ("good", "common"):
        assert len(installation.sinks[right].wait(1)) == 1
    wrong = installation.sinks.keys() - {"good", "common"}
    eventually(lambda: retried(installation.house) >= wrong)
    received = {name for name, sink in installation.sinks.items() if sink.received}
    assert received == {"good", "common"}


def retried(house: House) -> set[str]:
    """Return the destinations whose first attempt failed."""
    rows = json.loads(house.bridge("deliveries", "list", "--limit", "200", "--json"))
    return {row["destination"] for row in rows if int(row["attempts"]) > 1}


def serial_of(sender: Sender) -> int:
    """The serial number of the listener's certificate."""
    assert isinstance(sender.socket, ssl.SSLSocket)
    data = sender.socket.getpeercert(binary_form=True)
    assert data is not None
    return x509.load_der_x509_certificate(data).serial_number


def test_certificates_are_renewed_while_connections_are_open(installation: TlsInstallation) -> None:
    """New connections get the new certificate, open ones continue; invalid files have no effect."""
    context = installation.authority.client(installation.clients["good"])
    with Sender(installation.port, tls=context) as open_connection:
        assert verdict(open_connection.ask(order(7030))) == ("AA", "C7030")
        assert serial_of(open_connection) == installation.own.serial
        new = installation.authority.issue("new")
        new.certificate.replace(installation.own.certificate)  # key and certificate do not match
        with Sender(installation.port, tls=context) as between:
            assert serial_of(between) == installation.own.serial
        new.key.replace(installation.own.key)
        with Sender(installation.port, tls=context) as fresh:
            assert serial_of(fresh) == new.serial
            assert verdict(fresh.ask(order(7031))) == ("AA", "C7031")
        assert verdict(open_connection.ask(order(7032))) == ("AA", "C7032")
        installation.own.certificate.write_text("nonsense", "utf-8")
        with Sender(installation.port, tls=context) as after:
            assert serial_of(after) == new.serial
    assert "new TLS files cannot be used" in installation.house.log()


def test_check_live_connects_to_the_destinations(installation: TlsInstallation) -> None:
    """`check --live` does a handshake with each destination and names the reason of a failure."""
    output = installation.house.bridge("check", "--live", expect=None)
    wrong = dict(re.findall(r"destination (\S+): its (?:certificate|authority) (\S+ \S+)", output))
    assert wrong == {
        "expired": "has expired:",
        "wrong-name": "is not",
        "revoked": "was revoked:",
        "foreign": "is not",
        "nameless": "is not",
        "no-name": "is not",
    }
    assert not re.search("destination (good|common)", output)
