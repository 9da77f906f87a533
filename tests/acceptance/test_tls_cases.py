"""TLS at its edges, both ways: old, expired, revoked, another's, plain; files exchanged."""

import re
import socket
import ssl
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import httpx
import pytest
from cryptography import x509

from tests.acceptance.certificates import Office, Paper, server
from tests.acceptance.house import House, free_port
from tests.acceptance.orders import order
from tests.acceptance.wire import Sender, Sink, verdict
from tests.eventually import PATIENCE


@dataclass
class LinkKeys:
    """A house behind TLS, its authority, and the papers of everybody."""

    house: House
    office: Office
    port: int
    web_port: int
    own: Paper
    clients: dict[str, Paper | None]
    sinks: dict[str, Sink]


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LinkKeys]:
    """One service: mutual listeners with a revocation list, and destinations."""
    folder = tmp_path_factory.mktemp("vault")
    office, stranger = Office(folder), Office(folder, "stranger")
    house = House(folder / "home")
    own = office.issue("bridge")
    clients: dict[str, Paper | None] = {
        "good": office.issue("good", "ris"),
        "revoked": office.issue("revoked", "ris"),
        "expired": office.issue("expired", "ris", (-20, -2)),
        "early": office.issue("early", "ris", (2, 20)),
        "stranger": stranger.issue("strange", "ris"),
        "nobody": None,
    }
    revoked = clients["revoked"]
    assert revoked is not None
    crl = office.revoke("clients", revoked)
    tls = own.files() | {"client_ca": str(office.file), "client_crl": crl}
    port, web_port = house.listener("mutual", tls=tls), free_port()
    bind = f"https://127.0.0.1:{web_port}/"
    house.listener("web", bind=bind, tls=tls, frame_timeout="500ms")
    receivers = {
        "good": office.issue("sink-good"),
        "expired": office.issue("sink-expired", days=(-20, -2)),
        "wrong-name": office.issue("sink-wrong", "elsewhere"),
        "revoked": office.issue("sink-revoked"),
        "stranger": stranger.issue("sink-strange"),
        "common": office.issue("sink-common", names=()),
        "nameless": office.issue("sink-nameless", "elsewhere", names=()),
        "no-name": office.issue("sink-no-name", names=["127.0.0.1"]),
    }
    servers = office.revoke("servers", receivers["revoked"])
    sinks = {name: Sink(tls=server(paper)) for name, paper in receivers.items()}
    for name, sink in sinks.items():
        trust = {"ca": str(office.file), "crl": servers, "server_name": "localhost"}
        house.destination(name, sink.port, tls=trust)
    house.make()
    house.start()
    yield LinkKeys(house, office, port, web_port, own, clients, sinks)
    assert house.stop() == 0
    for sink in sinks.values():
        sink.stop()


def ask(vault: LinkKeys, number: int, context: ssl.SSLContext | None) -> bytes | None:
    """Send an order; None when nobody answers, however the line ends."""
    patience = 2 if context is None else PATIENCE  # in plain text the line may stay, with no word
    try:
        with Sender(vault.port, tls=context) as sender:
            return sender.ask(order(number), timeout=patience)
    except OSError:
        return None


@pytest.mark.parametrize(
    ("who", "heard"),
    [
        ("good", True),
        ("revoked", False),
        ("expired", False),
        ("early", False),
        ("stranger", False),
        ("nobody", False),
    ],
)
def test_who_is_heard(vault: LinkKeys, who: str, *, heard: bool) -> None:
    """Only whom the authority has issued to, now, and has not revoked."""
    number = 7001 + list(vault.clients).index(who)
    reply = ask(vault, number, vault.office.client(vault.clients[who]))
    assert (reply is not None and verdict(reply)[0] == "AA") is heard
    vault.house.settle()
    assert (vault.house.row(f"A{number}") is not None) is heard


def test_old_tls_and_none(vault: LinkKeys) -> None:
    """TLS 1.1 gets no connection, plain text no answer; neither disturbs anybody."""
    good = vault.clients["good"]
    old = vault.office.client(good)
    old.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    assert ask(vault, 7011, old) is None
    assert b"MSA" not in (ask(vault, 7012, None) or b"")
    reply = ask(vault, 7013, vault.office.client(good))
    assert verdict(reply) == ("AA", "C7013")


@pytest.mark.parametrize(("who", "heard"), [("good", True), ("revoked", False), ("nobody", False)])
def test_who_is_heard_over_https(vault: LinkKeys, who: str, *, heard: bool) -> None:
    """The same as over MLLP."""
    context, url = vault.office.client(vault.clients[who]), f"https://localhost:{vault.web_port}/"
    kind = {"content-type": "application/hl7-v2"}
    try:
        reply = httpx.post(url, content=order(7014), headers=kind, verify=context, timeout=PATIENCE)
    except httpx.HTTPError:
        assert not heard
    else:
        assert heard
        assert verdict(reply.content) == ("AA", "C7014")


def test_half_a_handshake_over_https_has_as_much_time_as_a_request(vault: LinkKeys) -> None:
    """Not the minute that a connection without a request is kept for."""
    with socket.create_connection(("127.0.0.1", vault.web_port), timeout=PATIENCE) as wire:
        wire.sendall(bytes.fromhex("1603010200010001fc0303"))
        with suppress(ConnectionResetError):
            assert wire.recv(100) == b""


def test_only_the_right_receiver_gets_results(vault: LinkKeys) -> None:
    """
    Expired, of another name or none, revoked, of another authority: not a byte of a result.

    A common name is one where there is no other.
    """
    vault.house.draft("M7020", "A7020", "For the right one.")
    vault.house.sign("M7020", "A7020")
    for right in ("good", "common"):
        assert len(vault.sinks[right].wait(1)) == 1
    time.sleep(2)
    received = {name for name, sink in vault.sinks.items() if sink.received}
    assert received == {"good", "common"}


def shown(sender: Sender) -> int:
    """The serial number of the certificate that the other side shows."""
    assert isinstance(sender.socket, ssl.SSLSocket)
    data = sender.socket.getpeercert(binary_form=True)
    assert data is not None
    return x509.load_der_x509_certificate(data).serial_number


def test_certificates_are_exchanged_while_connections_stand(vault: LinkKeys) -> None:
    """New connections get the new files; those that stand go on; broken files change nothing."""
    context = vault.office.client(vault.clients["good"])
    with Sender(vault.port, tls=context) as standing:
        assert verdict(standing.ask(order(7030))) == ("AA", "C7030")
        assert shown(standing) == vault.own.serial
        new = vault.office.issue("new")
        new.certificate.replace(vault.own.certificate)  # the pair does not fit for a moment
        with Sender(vault.port, tls=context) as between:
            assert shown(between) == vault.own.serial
        new.key.replace(vault.own.key)
        with Sender(vault.port, tls=context) as fresh:
            assert shown(fresh) == new.serial
            assert verdict(fresh.ask(order(7031))) == ("AA", "C7031")
        assert verdict(standing.ask(order(7032))) == ("AA", "C7032")
        vault.own.certificate.write_text("nonsense", "utf-8")
        with Sender(vault.port, tls=context) as after:
            assert shown(after) == new.serial
    assert "new files not used" in vault.house.log()


def test_check_live_asks_the_peers(vault: LinkKeys) -> None:
    """A handshake with each destination as it is set, with the reason where there is none."""
    told = vault.house.bridge("check", "--live", expect=None)
    wrong = dict(re.findall(r"destination (\S+): its (?:certificate|authority) (\S+ \S+)", told))
    assert wrong == {
        "expired": "has expired:",
        "wrong-name": "is not",
        "revoked": "was revoked:",
        "stranger": "is not",
        "nameless": "is not",
        "no-name": "is not",
    }
    assert not re.search("destination (good|common)", told)
