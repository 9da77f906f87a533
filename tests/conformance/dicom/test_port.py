"""The DICOM port: who may associate, and what strangers can do."""

import json
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
from pydicom import Dataset
from pydicom.uid import ExplicitVRLittleEndian, generate_uid
from pynetdicom import AE
from pynetdicom.association import Association
from pynetdicom.dsutils import decode
from pynetdicom.pdu_primitives import UserIdentityNegotiation
from pynetdicom.sop_class import (  # type: ignore[attr-defined]  # made at run time
    ModalityWorklistInformationFind,
    Verification,
)
from sqlalchemy import select

from bridge.dicom.activity import Activity, Refusals
from bridge.orders.received_objects import PERFORMED_STEP
from bridge.store.database import Database
from bridge.store.records.dicom_peers import (
    MAX_OF_ADDRESS,
    MAX_REFUSALS,
    PeerActivity,
    Refusal,
    read_peers,
    read_refusals,
)
from bridge.store.tables import AUDIT_OUTBOX
from bridge.transports.tls import listener_tls_context
from config import Settings
from config.dicom import DicomPeer
from config.listeners import ListenerTLS
from tests.acceptance.hostile_peer import (
    ABORT,
    COMMAND,
    DATA,
    LAST,
    P_DATA,
    HostilePeer,
    command,
    p_data,
    raw_request,
    request_of,
)
from tests.acceptance.house import free_port
from tests.bridge.dicom.modality import BASIC_TEXT, Modality, ended, new_step
from tests.bridge.dicom.worklist_items import insert, make_item
from tests.conformance.dicom.port import TITLE, Port, dump, echoscu, findscu, ids, run
from tests.eventually import eventually
from tests.peak_memory import peak_memory
from tests.programs import DCMTK, ORTHANC

Serve = Callable[..., Port]
pytestmark = [
    pytest.mark.needs(DCMTK),
    pytest.mark.filterwarnings("ignore:Passing pyOpenSSL"),
]
ID = "(0010,0020) LO"
ROOT = Path(__file__).resolve().parents[3]


def test_titles_and_addresses(serve: Serve) -> None:
    """Unknown titles and addresses are rejected with the reason of the standard, and counted."""
    port = serve({"ae_title": "CT1"}, {"ae_title": "FAR", "addresses": ["10.1.0.0/16"]})
    number = port.number
    assert "Calling AE Title Not Recognized" in echoscu(number, calling="STRANGER")
    assert "Called AE Title Not Recognized" in echoscu(number, called="OTHER")
    assert "Calling AE Title Not Recognized" in echoscu(number, calling="FAR")
    assert port.refused == ["calling title", "called title", "address"]
    refused = "bridge_dicom_refused_total"
    assert port.count(refused, peer="FAR", reason="address") == 1
    assert port.count(refused, peer="other", reason="calling title") == 1
    assert port.count(refused, peer="CT1", reason="called title") == 1
    assert "Association Rejected" not in echoscu(number)
    assert port.count("bridge_dicom_associations_accepted_total", peer="CT1") == 1


def test_a_service_without_permission(serve: Serve, steps: Database) -> None:
    """A peer that may not ask the worklist gets no presentation context for it."""
    insert(steps, make_item(1))
    port = serve({"ae_title": "CT1", "may": ["store"]})
    _, output = findscu(port.number, dump(ID), expect=None)
    assert "No Acceptable Presentation Contexts" in output
    assert "Association Rejected" not in echoscu(port.number)


@contextmanager
def associated(port: Port, *, calling: str = "CT1") -> Iterator[Association]:
    entity = AE(calling)
    entity.add_requested_context(Verification)
    entity.add_requested_context(ModalityWorklistInformationFind)
    association = entity.associate("127.0.0.1", port.number, ae_title=TITLE)
    try:
        yield association
    finally:
        if association.is_established:
            association.release()


@pytest.mark.parametrize(
    "limit", [{"max_associations": 3}, {"max_associations_per_source": 3}], ids=str
)
def test_limits_of_associations(serve: Serve, limit: dict[str, int]) -> None:
    """Further associations are rejected as transient until one ends."""
    port = serve(**limit)
    with ExitStack() as stack:
        first = stack.enter_context(associated(port))
        others = [stack.enter_context(associated(port)) for _ in range(2)]
        assert all(association.is_established for association in (first, *others))
        rejected = echoscu(port.number)
        assert "Rejected Transient" in rejected
        assert "Local Limit Exceeded" in rejected
        assert first.send_c_echo().Status == 0
        first.release()
        eventually(lambda: "Rejected" not in echoscu(port.number))
    assert port.count("bridge_dicom_refused_total", peer="CT1", reason=port.refused[0]) >= 1


def connect(port: Port, data: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port.number), timeout=60)
    connection.sendall(data)
    return connection


def is_closed(connection: socket.socket) -> bool:
    """Read until the other side closes; True if it does."""
    try:
        while connection.recv(65536):
            continue
    except TimeoutError:
        return False
    except (ConnectionError, ssl.SSLError):
        return True
    return True


GARBAGE = {
    "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "zeros": bytes(1000),
    "ones": b"\xff" * 1000,
    "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(200),
    "an endless PDU": b"\x01\x00\xff\xff\xff\xff" + bytes(1000),
    "data without an association": b"\x04\x00\x00\x00\x00\x08\x00\x00\x00\x04\x01\x03ab",
    "a request without items": b"\x01\x00" + (68).to_bytes(4, "big") + b"\x00\x01" + bytes(66),
    "a request of nothing": b"\x01\x00\x00\x00\x00\x00",
    "a wrong version": b"\x01\x00" + (68).to_bytes(4, "big") + b"\x00\x00" + b" " * 66,
    "items that are longer than the request": b"\x01\x00"
    + (78).to_bytes(4, "big")
    + b"\x00\x01\x00\x00"
    + b"A" * 32
    + bytes(32)
    + b"\x10\x00\xff\xff1.2.3.",
    "a release": b"\x05\x00\x00\x00\x00\x04\x00\x00\x00\x00",
    "an abort": b"\x07\x00\x00\x00\x00\x04\x00\x00\x00\x00",
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage(serve: Serve, data: bytes) -> None:
    """What is no DICOM ends its connection, and no other one."""
    port = serve(request_timeout=1.0)
    with associated(port) as other, connect(port, data) as connection:
        assert is_closed(connection)
        assert other.send_c_echo().Status == 0
    assert "Rejected" not in echoscu(port.number)


def test_slow_peers(serve: Serve) -> None:
    """A peer that sends nothing, or stops within a PDU, is disconnected; others do not wait."""
    port = serve(request_timeout=0.5, message_timeout=0.5, idle_timeout=1.0)
    silent, half = connect(port), connect(port, b"\x01\x00\x00")
    with associated(port) as idle, associated(port) as stopped:
        stopped_socket = stopped.dul.socket
        assert stopped_socket is not None
        assert stopped_socket.socket is not None
        stopped_socket.socket.sendall(b"\x04\x00\x00\x00\x01\x00\x00\x00\x00\xfe\x01\x03abc")
        assert "Rejected" not in echoscu(port.number)
        assert is_closed(silent)
        assert is_closed(half)
        eventually(lambda: not idle.is_established)
        eventually(lambda: not stopped.is_established)
    for connection in (silent, half):
        connection.close()
    eventually(lambda: port.count("bridge_dicom_associations") == 0)
    assert {"request_timeout", "message_timeout"} <= set(port.refused)


def test_slow_bytes(serve: Serve, steps: Database) -> None:
    """
    Fifty associations that send a byte now and then, so that a message takes longer than
    `message_timeout`, are ended with an A-ABORT; another one is answered all the time.
    """
    insert(steps, make_item(1))
    port = serve(message_timeout=1.0, max_associations=60, max_associations_per_source=60)
    request = request_of(port.number, WORKLIST)
    with associated(port) as other, ExitStack() as stack:
        slow = [stack.enter_context(closing(HostilePeer(port.number, request))) for _ in range(50)]
        for peer in slow:
            peer.send(b"\x04\x00\x00\x00\xff\x00")
        going = [*slow]
        while going:
            for peer in [*going]:
                try:
                    peer.send(b"\x00")
                except OSError:
                    going.remove(peer)
            assert other.send_c_echo().Status == 0
    assert port.refused == ["message_timeout"] * 50
    eventually(lambda: port.count("bridge_dicom_associations") == 0)


def test_two_hundred_connections(serve: Serve, steps: Database) -> None:
    """Connections that never ask for an association do not keep a modality from the worklist."""
    insert(steps, make_item(1))
    far = {"ae_title": "CT1", "addresses": ["127.0.0.2"]}
    port = serve({"ae_title": "HERE", "addresses": ["127.0.0.1"]}, far, request_timeout=60)
    opened = [connect(port) for _ in range(200)]
    eventually(lambda: "too many connections" in port.refused)
    query = AE("CT1")
    query.add_requested_context(Verification)
    association = query.associate(
        "127.0.0.1", port.number, ae_title=TITLE, bind_address=("127.0.0.2", 0)
    )
    assert association.is_established
    assert association.send_c_echo().Status == 0
    association.release()
    assert len([thread for thread in threading.enumerate() if "Acceptor" in thread.name]) <= 40
    for connection in opened:
        connection.close()


def test_an_association_of_many_contexts(serve: Serve, steps: Database) -> None:
    """A request with 128 presentation contexts and a user identity is answered."""
    insert(steps, make_item(1))
    entity = AE("CT1")
    for number in range(127):
        entity.add_requested_context(f"1.2.3.{number}")
    entity.add_requested_context(Verification)
    identity = UserIdentityNegotiation()
    identity.user_identity_type = 2
    identity.primary_field = b"user"
    identity.secondary_field = b"secret"
    association = entity.associate("127.0.0.1", serve().number, ae_title=TITLE, ext_neg=[identity])
    assert association.is_established
    assert association.send_c_echo().Status == 0
    association.release()


@pytest.mark.parametrize("control", [DATA, COMMAND])
def test_endless_messages(serve: Serve, control: int) -> None:
    """A command or data set without an end is cut off at its limit, before it takes memory."""
    port = serve(max_identifier=4096)
    with associated(port) as association:
        sent = association.dul.socket
        assert sent is not None
        connection = sent.socket
        assert connection is not None
        context = association.accepted_contexts[-1].context_id or 0
        part = p_data(context, control, bytes(16_000))
        if control == DATA:
            find = command(
                AffectedSOPClassUID=WORKLIST,
                CommandField=0x0020,
                MessageID=1,
                Priority=0,
                CommandDataSetType=1,
            )
            connection.sendall(p_data(context, COMMAND | LAST, find))
        with peak_memory() as peak:
            try:
                for _ in range(10_000):
                    connection.sendall(part)
            except OSError:
                pass
            else:
                pytest.fail("160 MB were accepted")
            eventually(lambda: not association.is_established)
            connection.close()  # pynetdicom only forgets it
        assert peak.bytes < 20 * 2**20
    assert port.refused[-1] == ("command" if control == COMMAND else "data set")
    assert "Rejected" not in echoscu(port.number)


MALFORMED = {
    "no command": b"\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00",
    "an unknown command": b"\x00\x00\x00\x01\x02\x00\x00\x00\x77\x77",
    "a length without bytes": b"\x00\x00\x00\x01\xff\xff\xff\x7f",
    "no elements": b"xx",
    "a number of three bytes": b"\x00\x00\x00\x01\x03\x00\x00\x00\x30\x00\x00",
    "no Message ID": command(CommandField=0x0030, CommandDataSetType=0x0101),
}


@pytest.mark.parametrize("command", MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_messages(serve: Serve, command: bytes) -> None:
    """A message that cannot be read ends its association with an A-ABORT, and no other one."""
    port = serve()
    request = request_of(port.number, WORKLIST)
    with associated(port) as other, closing(HostilePeer(port.number, request)) as peer:
        peer.send(p_data(1, 3, command))
        assert peer.read() == (ABORT, bytes((0, 0, 2, 6)))
        assert other.send_c_echo().Status == 0
    eventually(lambda: port.count("bridge_dicom_associations") == 0)


EXPLICIT = str(ExplicitVRLittleEndian)
MALFORMED_PDUS = {
    "an even context ID": raw_request((2, str(Verification), EXPLICIT)),
    "a context ID twice": raw_request(*[(1, str(Verification), EXPLICIT)] * 2),
    "a context without transfer syntaxes": raw_request((1, str(Verification), "")),
    "a UID of a thousand characters": raw_request((1, "1." * 500, EXPLICIT)),
    "a title with control characters": raw_request(calling=b"CT1\n\x1b[2J"),
    "a request that is cut": b"\x01\x00\x00\x00\x00\x04\x00\x01\x00\x00",
    "an A-ABORT without source": b"\x07\x00\x00\x00\x00\x04\x00\x00\xff\xff",
}


@pytest.mark.parametrize("pdu", MALFORMED_PDUS.values(), ids=MALFORMED_PDUS.keys())
def test_malformed_requests(serve: Serve, pdu: bytes) -> None:
    """A request that cannot be read gets an A-ABORT at once, and not an answer to a part of it."""
    port = serve()
    with closing(HostilePeer(port.number)) as peer:
        peer.send(pdu)
        assert peer.read() == (ABORT, bytes((0, 0, 2, 6)))
    assert "malformed PDU" in port.refused


WORKLIST = str(ModalityWorklistInformationFind)
SUPPORTED = {
    WORKLIST: {"C-FIND"},
    PERFORMED_STEP: {"N-CREATE", "N-SET"},
    BASIC_TEXT: {"C-STORE"},
    str(Verification): set[str](),
}
OPERATIONS = {
    "C-STORE": 0x0001,
    "C-GET": 0x0010,
    "C-FIND": 0x0020,
    "C-MOVE": 0x0021,
    "N-EVENT-REPORT": 0x0100,
    "N-GET": 0x0110,
    "N-SET": 0x0120,
    "N-ACTION": 0x0130,
    "N-CREATE": 0x0140,
    "N-DELETE": 0x0150,
}


EMPTY_ID = b"\x10\x00\x20\x00LO\x00\x00"


class RawPeer(HostilePeer):
    """A peer that sends any command in the context of any class of `SUPPORTED`."""

    def ask(
        self, context: str, name: str, sop_class: str, sent: bytes = EMPTY_ID, **elements: Any
    ) -> Dataset:
        """Send a request, with data set `sent` if it has one; return the answer."""
        kind = "Requested" if name in {"N-GET", "N-SET", "N-ACTION", "N-DELETE"} else "Affected"
        has_data = context != str(Verification) and name not in {"N-GET", "N-DELETE"}
        named = {f"{kind}SOPClassUID": sop_class} if sop_class else {}
        elements = {"MessageID": 7, f"{kind}SOPInstanceUID": "1.2.3", **named, **elements}
        data_set_type = {"CommandDataSetType": 1 if has_data else 0x0101}
        field = {"CommandField": OPERATIONS[name]}
        number = 1 + 2 * [*SUPPORTED].index(context)
        request = command(**elements, **field, **data_set_type)
        self.send(p_data(number, COMMAND | LAST, request))
        if has_data:
            self.send(p_data(number, DATA | LAST, sent))
        kind_of_pdu, content = self.read()
        assert kind_of_pdu == P_DATA, f"{name} in {context}"
        answer = decode(BytesIO(content[6:]), True, True)
        assert answer.CommandField == OPERATIONS[name] | 0x8000
        assert answer.MessageIDBeingRespondedTo == 7
        return answer


@pytest.fixture
def raw_peer(serve: Serve) -> Iterator[RawPeer]:
    """A peer that may use all services, in one association."""
    port = serve({"ae_title": "CT1", "may": ["worklist", "performed", "store"]})
    with closing(RawPeer(port.number, request_of(port.number, *SUPPORTED))) as made:
        yield made


def test_operations_that_are_not_supported(raw_peer: RawPeer) -> None:
    """Each gets 0211, unrecognized operation, in each context; the association goes on."""
    for context, supported in SUPPORTED.items():
        for name in OPERATIONS.keys() - supported:
            more: dict[str, dict[str, Any]] = {
                "C-MOVE": {"MoveDestination": "CT1"},
                "N-EVENT-REPORT": {"EventTypeID": 1},
                "N-ACTION": {"ActionTypeID": 1},
            }
            answer = raw_peer.ask(context, name, context, **more.get(name, {}))
            assert answer.Status == 0x0211, f"{name} in {context}"
            assert str(answer.get("AffectedSOPClassUID", context)) == context
    find = raw_peer.ask(WORKLIST, "C-FIND", WORKLIST, Priority=0)
    assert find.Status == 0x0000


@pytest.mark.parametrize(
    ("context", "name", "sop_class", "status"),
    [
        (WORKLIST, "C-FIND", "1.2.840.10008.5.1.4.1.2.1.1", 0x0122),  # patient root
        (WORKLIST, "C-FIND", "1.2.3.4", 0x0122),
        (BASIC_TEXT, "C-STORE", "1.2.840.10008.5.1.4.1.1.2", 0x0122),  # CT image
        (BASIC_TEXT, "C-STORE", "1.2.3.4", 0x0122),
        (PERFORMED_STEP, "N-CREATE", "1.2.840.10008.5.1.1.1", 0x0118),  # film session
        (PERFORMED_STEP, "N-SET", "1.2.3.4", 0x0118),
        (WORKLIST, "C-FIND", "", 0x0212),
        (PERFORMED_STEP, "N-SET", "", 0x0212),
    ],
)
def test_another_class_than_that_of_the_context(
    raw_peer: RawPeer, steps: Database, context: str, name: str, sop_class: str, status: int
) -> None:
    """A known, an unknown and no SOP class are refused; nothing is stored or shown."""
    insert(steps, make_item(1))
    for _ in range(2):
        assert raw_peer.ask(context, name, sop_class, Priority=0).Status == status
    with steps.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM message").scalar() == 0


def test_an_identifier_that_is_cut(raw_peer: RawPeer) -> None:
    """A key that is longer than its identifier is refused, not searched for in a part."""
    cut = b"\x10\x00\x20\x00LO\x09\x00P1"
    answer = raw_peer.ask(WORKLIST, "C-FIND", WORKLIST, Priority=0, sent=cut)
    assert answer.Status == 0xA900


def test_refused_steps_do_not_end_an_association(serve: Serve) -> None:
    """All refusals of N-CREATE and N-SET in one association, and a step that is accepted."""
    port = serve({"ae_title": "CT1", "may": ["performed"]})
    association = Modality(port.number).associate(PERFORMED_STEP, str(Verification))
    known, other = generate_uid(), generate_uid()

    def create(uid: str, **values: str) -> int:
        return int(association.send_n_create(new_step(**values), PERFORMED_STEP, uid)[0].Status)

    def change(uid: str) -> int:
        return int(association.send_n_set(ended(), PERFORMED_STEP, uid)[0].Status)

    assert change(known) == 0x0112  # no such SOP instance
    assert create(known, status="COMPLETED") == 0x0106  # invalid attribute value
    assert create(known) == 0x0000
    assert create(known) == 0x0111  # duplicate SOP instance
    assert change(other) == 0x0112
    assert change(known) == 0x0000
    assert change(known) == 0x0110  # it may no longer be updated
    assert association.send_c_echo().Status == 0x0000
    association.release()


def test_unknown_abstract_syntaxes(serve: Serve) -> None:
    """They are not accepted, beside one that is (PS3.8 table 9-18)."""
    entity = AE("CT1")
    unknown = ("1.2.3.4", "1.2.840.10008.5.1.4.1.1.2", PERFORMED_STEP)
    for sop_class in (*unknown, Verification):
        entity.add_requested_context(sop_class)
    association = entity.associate("127.0.0.1", serve().number, ae_title=TITLE)
    rejected = {str(one.abstract_syntax): one.result for one in association.rejected_contexts}
    assert rejected == dict.fromkeys(unknown, 3)
    assert association.send_c_echo().Status == 0x0000
    association.release()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the certificates of an authority, the port, a modality and a stranger."""
    folder = tmp_path_factory.mktemp("tls")
    ours, other = trustme.CA(), trustme.CA()
    ours.cert_pem.write_to_path(folder / "ca.pem")
    for name, issuer in (("port", ours), ("modality", ours), ("stranger", other)):
        made = issuer.issue_cert("localhost", "127.0.0.1")
        made.cert_chain_pems[0].write_to_path(folder / f"{name}.pem")
        made.private_key_pem.write_to_path(folder / f"{name}.key")
    return folder


@pytest.fixture
def secure(serve: Serve, steps: Database, authority: Path) -> Port:
    """A port with mutual TLS, and a step."""
    insert(steps, make_item(1))
    tls = ListenerTLS(
        certificate=authority / "port.pem",
        key=authority / "port.key",
        client_ca=authority / "ca.pem",
    )
    return serve(tls=listener_tls_context(Settings(home=authority), tls), request_timeout=2.0)


def test_tls(secure: Port, authority: Path) -> None:
    """A modality with a certificate of the authority gets the worklist."""
    files = [str(authority / name) for name in ("modality.key", "modality.pem", "ca.pem")]
    answers, _ = findscu(secure.number, dump(ID), "+tls", *files[:2], "+cf", files[2])
    assert ids(answers) == ["P1"]


def test_no_tls(secure: Port, authority: Path) -> None:
    """Plain connections, strangers and old versions fail in the handshake, which is noted."""
    echoscu(secure.number)
    eventually(lambda: any("plain text" in reason for reason in secure.handshakes))
    stranger = ssl.create_default_context(cafile=authority / "ca.pem")
    stranger.load_cert_chain(authority / "stranger.pem", authority / "stranger.key")
    with (
        connect(secure) as plain,
        stranger.wrap_socket(plain, server_hostname="localhost") as connection,
    ):
        assert is_closed(connection)
    eventually(lambda: any("authority" in reason for reason in secure.handshakes))


def test_a_slow_handshake(secure: Port, authority: Path) -> None:
    """A peer that does not finish the handshake delays no other one."""
    waiting = [connect(secure) for _ in range(10)]
    files = [str(authority / name) for name in ("modality.key", "modality.pem", "ca.pem")]
    answers, _ = findscu(secure.number, dump(ID), "+tls", *files[:2], "+cf", files[2])
    assert ids(answers) == ["P1"]
    for connection in waiting:
        assert is_closed(connection)
        connection.close()
    eventually(lambda: any("did not finish" in reason for reason in secure.handshakes))


def test_refusals_by_peer(steps: Database) -> None:
    """Refusals are reported with the peer; titles that anybody can invent are `other`."""
    reported: list[Refusals] = []
    activity = Activity(steps, reported.append)
    activity.note_refusal("C-STORE A900", "10.0.0.1", "CT1")
    activity.note_refusal("calling title", "10.0.0.1", "CT7", is_peer=False)
    activity.note_refusal("max_pdu", "10.0.0.1")
    activity.report(1000)
    assert [{(one.reason, one.peer): count for one, count in reported[0].items()}] == [
        {("C-STORE A900", "CT1"): 1, ("calling title", "other"): 1, ("max_pdu", "other"): 1}
    ]


def test_audit(serve: Serve, steps: Database) -> None:
    """Who asked, and who was refused, is in the audit trail: once an hour for each."""
    insert(steps, make_item(1), make_item(2))
    port = serve()
    for _ in range(3):
        findscu(port.number, dump(ID))
        echoscu(port.number, calling="STRANGER")
    port.activity.report(1000)
    findscu(port.number, dump(ID))
    port.activity.report(2000)
    with steps.read() as connection:
        stored = [json.loads(body) for body in connection.scalars(select(AUDIT_OUTBOX.c.body))]
    found = {event["action"]: event["details"] for event in stored}
    assert len(stored) == 2
    assert found["dicom-query"] == {"request": "C-FIND", "requests": 3, "answers": 6}
    assert found["dicom-refused"] == {"reason": "calling title", "count": 3}
    port.activity.report(1000 + 3_600_000)
    with steps.read() as connection:
        assert len(connection.execute(select(AUDIT_OUTBOX.c.id)).all()) == 3


# The client closes after its A-RELEASE-RQ; pynetdicom's thread raises if its response comes then.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_dcmjs_dimse(serve: Serve, steps: Database) -> None:
    """The client dcmjs-dimse echoes and gets the steps."""
    insert(steps, make_item(1), make_item(2, modality="MR"), make_item(3))
    client = str(Path(__file__).parent / "worklist_client.mjs")
    printed = run("node", client, str(serve().number), "CT1").splitlines()
    found = json.loads(next(line for line in printed if line.startswith('{"echo"')))
    assert found["errors"] == []
    assert found["echo"] is True
    assert found["ids"] == ["P1", "P3"]
    assert found["status"] == 0


@pytest.mark.needs(ORTHANC)
def test_orthanc(serve: Serve, steps: Database, tmp_path: Path) -> None:
    """Orthanc's worklist client gets the steps."""
    insert(steps, make_item(1), make_item(2, modality="MR"))
    port, http = serve({"ae_title": "ORTHANC"}), free_port()
    settings: dict[str, Any] = {
        "DicomAet": "ORTHANC",
        "DicomServerEnabled": False,
        "HttpPort": http,
        "StorageDirectory": str(tmp_path / "storage"),
        "IndexDirectory": str(tmp_path / "storage"),
        "RemoteAccessAllowed": False,
        "DicomModalities": {"bridge": [TITLE, "127.0.0.1", port.number]},
        "Plugins": [],
    }
    (tmp_path / "orthanc.json").write_text(json.dumps(settings), "utf-8")
    with (tmp_path / "log").open("wb") as log:
        program = subprocess.Popen(
            [ORTHANC.require(), str(tmp_path / "orthanc.json")], stdout=log, stderr=log
        )
    try:
        call = partial(httpx.post, timeout=60)
        address = f"http://127.0.0.1:{http}"
        eventually(lambda: _answers(f"{address}/system"))
        assert call(f"{address}/modalities/bridge/echo", json={}).status_code == 200
        query = {
            "PatientID": "",
            "PatientName": "*",
            "ScheduledProcedureStepSequence": [{"Modality": "CT"}],
        }
        found = call(f"{address}/modalities/bridge/find-worklist", json=query)
        assert found.status_code == 200, found.text
        assert [item["PatientID"] for item in found.json()] == ["P1"]
    finally:
        program.terminate()
        program.wait()


def _answers(address: str) -> bool:
    try:
        return httpx.get(address, timeout=10).status_code == 200
    except httpx.HTTPError:
        return False


def peer(title: str, **settings: Any) -> DicomPeer:
    return DicomPeer.model_validate({"ae_title": title, "addresses": ["127.0.0.1"], **settings})


def test_other_peers(serve: Serve, steps: Database) -> None:
    """
    Peers may change while associations are open.

    Their next request has the new rights; those of a peer that is disabled, removed or not at its
    address any more are aborted, and the others stay.
    """
    insert(steps, make_item(1), make_item(2, modality="MR"))
    titles = ("CT1", "OFF", "GONE", "MOVED")
    port = serve(*({"ae_title": title} for title in titles))
    with ExitStack() as stack:
        held = {title: stack.enter_context(associated(port, calling=title)) for title in titles}
        assert all(association.is_established for association in held.values())
        port.server.use_peers(
            [
                peer("CT1", modalities=["MR"]),
                peer("OFF", enabled=False),
                peer("MOVED", addresses=["10.1.0.0/16"]),
                peer("NEW"),
            ]
        )
        for title in ("OFF", "GONE", "MOVED"):
            eventually(partial(getattr, held[title], "is_aborted"))
        query = Dataset()
        query.PatientID = ""
        found = [
            answer.PatientID
            for _, answer in held["CT1"].send_c_find(query, ModalityWorklistInformationFind)
            if answer is not None
        ]
        assert found == ["P2"]
    assert "Rejected" not in echoscu(port.number, calling="NEW")
    for title in ("OFF", "GONE", "MOVED"):
        assert "Not Recognized" in echoscu(port.number, calling=title)


def test_what_the_console_shows(serve: Serve, steps: Database) -> None:
    """The last association and request of a peer, and who was refused with which title."""
    insert(steps, make_item(1), make_item(2))
    port = serve()
    echoscu(port.number, calling="STRANGER")
    findscu(port.number, dump(ID))
    port.activity.store(1_000)
    findscu(port.number, dump(f"{ID} [P1]"))
    echoscu(port.number, calling="STRANGER")
    port.activity.store(2_000)
    port.activity.store(3_000)
    with steps.read() as connection:
        assert read_peers(connection) == {
            "CT1": PeerActivity("127.0.0.1", 2_000, "C-FIND", 2_000, 1)
        }
        refused = [Refusal("127.0.0.1", "STRANGER", "calling title", 2, 1_000, 2_000)]
        assert read_refusals(connection, 0) == refused
        assert read_refusals(connection, 2_001) == []


def test_many_strangers(steps: Database) -> None:
    """Titles and addresses of strangers are kept in bounded numbers; one address hides no other."""
    activity = Activity(steps)
    for address in range(50):
        for title in range(50):
            activity.note_refusal("calling title", f"10.0.0.{address}", f"T{title}\n{'x' * 99}")
    activity.store(1_000)
    for address in range(250):
        activity.note_refusal("address", f"10.0.1.{address}", "CT9")
        activity.store(2_000 + address)
    with steps.read() as connection:
        found = read_refusals(connection, 0)
    assert len(found) == MAX_REFUSALS
    assert {refusal.address for refusal in found} >= {"10.0.1.249", "10.0.1.100"}
    activity.note_refusal("address", "10.0.2.1", "A\x00B" + "C" * 99)
    for number in range(30):
        activity.note_refusal("address", "10.0.2.2", f"T{number}")
        activity.store(9_000 + number)
    activity.store(9_999)
    with steps.read() as connection:
        newest = read_refusals(connection, 9_000)
    assert "A?BCCCCCCCCCCCCC" in {refusal.title for refusal in newest}
    assert len(newest) == 1 + MAX_OF_ADDRESS
