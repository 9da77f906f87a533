"""TLS of listeners and destinations: old, expired, revoked and foreign certificates, renewal."""

import json
import re
import socket
import ssl
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from cryptography import x509

from tests.acceptance.certificates import Authority, Credential, server
from tests.acceptance.house import House, bridge, free_port
from tests.acceptance.orders import order
from tests.acceptance.wire import Sender, Sink, verdict
from tests.eventually import PATIENCE, eventually


@dataclass
class TlsInstallation:
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


def failures(house: House, kind: str, name: str) -> dict[str, str]:
    rows = json.loads(house.bridge(f"{kind}s", "list", "--json"))
    (row,) = (row for row in rows if row["name"] == name)
    return {failure["reason"]: failure["subject"] for failure in row["handshake_failures"]}


REFUSED = {
    "revoked": "certificate is revoked (CN=ris",
    "expired": "certificate has expired (CN=ris, since 20",
    "early": "certificate is not valid yet (CN=ris, from 20",
    "foreign": "unknown authority",
    "none": "sent no certificate",
}


@pytest.mark.parametrize("client", [*REFUSED, "plain text", "TLS 1.1"])
def test_a_refused_client_is_visible(installation: TlsInstallation, client: str) -> None:
    """Log, list and metric name the peer, the reason and the certificate."""
    house = installation.house
    if client == "plain text":
        words = "plain text"
        with suppress(OSError), Sender(installation.port) as sender:
            sender.ask(order(7050), timeout=PATIENCE)
    elif client == "TLS 1.1":
        words = "unsupported protocol version"
        context = installation.authority.client(installation.clients["good"])
        context.set_ciphers("ALL:@SECLEVEL=0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # expected
            context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
        assert ask(installation, 7051, context) is None
    else:
        words = REFUSED[client]
        context = installation.authority.client(installation.clients[client])
        assert ask(installation, 7052, context) is None
    found = eventually(
        lambda: [item for item in failures(house, "listener", "mutual").items() if words in item[0]]
    )
    if client in REFUSED and client not in {"none", "foreign"}:
        assert "CN=ris" in found[0][1]
    assert words in house.log()
    assert house.metric('bridge_tls_handshakes_failed_total{kind="listener",name="mutual"}') > 0


def test_a_refused_receiver_is_visible(installation: TlsInstallation) -> None:
    """A wrong name is told with the names in the certificate; an expired one with its date."""
    house = installation.house
    house.draft("M7060", "A7060", "For the right one.")
    house.sign("M7060", "A7060")
    for name, words in {
        "wrong-name": "wrong name: localhost was expected, and the certificate is for elsewhere",
        "expired": "certificate has expired (CN=",
        "revoked": "certificate is revoked (CN=",
        "foreign": "unknown authority",
    }.items():
        await_refusal(house, name, words)


def await_refusal(house: House, name: str, words: str) -> None:
    """Wait until the list and an alert of a destination say why its handshakes fail."""

    def is_listed() -> bool:
        return any(words in reason for reason in failures(house, "destination", name))

    def is_alerted() -> bool:
        alerts = json.loads(house.bridge("alerts", "list", "--json"))
        own = [alert["text"] for alert in alerts if alert["key"] == f"tls:destination {name}"]
        return any(words in text for text in own)

    eventually(is_listed)
    eventually(is_alerted)


def test_sending_over_tls_by_hand(installation: TlsInstallation, tmp_path: Path) -> None:
    """`bridge send --tls` authenticates both sides, and says why a connection is refused."""
    file = tmp_path / "order.hl7"
    file.write_bytes(order(7070))
    client = installation.clients["good"]
    assert client is not None
    address = ("send", f"127.0.0.1:{installation.port}", str(file), "--tls")
    own = ("--certificate", str(client.certificate), "--key", str(client.key))
    trust = ("--ca", str(installation.authority.file), "--server-name", "localhost")
    assert "MSA|AA|C7070" in bridge(*address, *trust, *own)
    assert "requires a certificate" in bridge(*address, *trust, expect=1)
    assert "certificate" in bridge(*address, *own, "--server-name", "localhost", expect=1)
    insecure = bridge(*address, *own, "--insecure", expect=None)
    assert "MSA|AA|C7070" in insecure


def test_a_refused_client_of_an_https_listener_is_visible(installation: TlsInstallation) -> None:
    """HL7 over HTTPS shows failed handshakes as MLLP does."""
    context = installation.authority.client(None)
    with suppress(httpx.HTTPError):
        httpx.post(f"https://localhost:{installation.web_port}/", content=b"", verify=context)
    reasons = eventually(lambda: failures(installation.house, "listener", "web"))
    assert any("sent no certificate" in reason for reason in reasons)
