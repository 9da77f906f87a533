"""What hostile or broken peers cost a running DICOM port: bounded memory, and no other peer."""

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass

import httpx
import pytest
from pydicom.uid import DeflatedExplicitVRLittleEndian
from pynetdicom import AE
from pynetdicom.association import Association
from pynetdicom.sop_class import (  # type: ignore[attr-defined]  # made at run time
    ModalityWorklistInformationFind,
)

from bridge.store.database import Database
from parsers.dicom_file import FileMeta, write_file
from tests.acceptance.hostile_peer import (
    ABORT,
    COMMAND,
    DATA,
    LAST,
    P_DATA,
    HostilePeer,
    forget_peak,
    p_data,
    peak_memory,
    request_of,
    store_command,
)
from tests.acceptance.house import House, free_port
from tests.acceptance.serving import Serving
from tests.acceptance.test_dicom_port import dicom_process
from tests.bridge.dicom.modality import (
    BASIC_TEXT,
    CALLED,
    Modality,
    data_set,
    encoded,
    meta_of,
    report,
)
from tests.bridge.dicom.test_stow import file_of, multipart
from tests.bridge.dicom.worklist_items import insert, make_item
from tests.eventually import eventually

pytestmark = pytest.mark.slow
OBJECT, MEMORY = 2**20, 4 * 2**20
ROOM = 64 * 2**20
"""Bytes that the process may grow in a test: what it is sent is a multiple of it."""
PARTS = 15
PART = bytes(60_000)


@dataclass
class Target:
    """A running installation with one order on the worklist, its DICOM port and process."""

    house: House
    port: int
    process: int
    web_process: int

    def ask(self, association: Association) -> int:
        """Ask the worklist; return the number of answers."""
        query = data_set(PatientID="", ScheduledProcedureStepSequence=[data_set(Modality="CT")])
        answers = list(association.send_c_find(query, ModalityWorklistInformationFind))
        assert answers[-1][0].Status == 0
        return len(answers) - 1

    def associate(self) -> Association:
        entity = AE("CT1")
        entity.add_requested_context(ModalityWorklistInformationFind)
        association = entity.associate("127.0.0.1", self.port, ae_title=CALLED)
        assert association.is_established
        return association


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    house, port = House(tmp_path_factory.mktemp("attacks") / "home"), free_port()
    house.settings = f"""
[dicom]
bind = "127.0.0.1:{port}"
max_object = {OBJECT}
message_timeout = 600
idle_timeout = 600
object_memory = {MEMORY}
max_associations = 250
max_associations_per_source = 250
[[dicom.peer]]
ae_title = "CT1"
addresses = ["127.0.0.1"]
may = ["worklist", "performed", "store"]
token_file = "ct1.token"
"""
    house.make()
    (house.home / "ct1.token").write_text("token-of-ct1", "utf-8")
    (house.home / "ct1.token").chmod(0o600)
    service: Serving = house.start()
    database = Database(f"sqlite:///{house.home / 'bridge.db'}")
    insert(database, make_item(1))
    database.dispose()
    web_process = dicom_process(service, house.http_port)
    found = Target(house, port, dicom_process(service, port), web_process)
    found.ask(association := found.associate())  # loads what a query needs
    association.release()
    yield found
    house.kill()
    assert not [word for word in ("Traceback", "TESTER", "Nodule") if word in house.log()]


def begin_object(port: int, request: bytes) -> HostilePeer:
    """Send a C-STORE with a large object, but not its end."""
    peer = HostilePeer(port, request)
    peer.send(p_data(1, COMMAND | LAST, store_command(BASIC_TEXT)))
    for _ in range(PARTS):
        peer.send(p_data(1, DATA, PART))
    return peer


def test_a_hundred_unfinished_objects(target: Target) -> None:
    """
    Large objects that never end fill `object_memory`. Other large objects are refused with A700
    until they are gone; queries and small objects are answered, and no association ends.
    """
    request = request_of(target.port, BASIC_TEXT)
    behaving = target.associate()
    modality = Modality(target.port)
    large = report(text="x" * 300_000)
    before = forget_peak(target.process)
    with ExitStack() as stack:
        for number in range(100):
            stack.enter_context(closing(begin_object(target.port, request)))
            if number % 20 == 0:
                assert target.ask(behaving) == 1
        storing = modality.associate(BASIC_TEXT)
        refused = modality.store_in(storing, large)
        assert (refused.Status, "too large" in refused.ErrorComment) == (0xA700, True)
        assert modality.store_in(storing, report(text="small")).Status == 0
        assert target.ask(behaving) == 1
    eventually(lambda: modality.store_in(storing, large).Status == 0)
    storing.release()
    behaving.release()
    assert peak_memory(target.process) - before < ROOM


def test_slow_bytes_in_many_associations(target: Target) -> None:
    """
    Fifty associations that send a byte now and then cost no memory, and delay no other one. Their
    objects are answered when they end.
    """
    request = request_of(target.port, BASIC_TEXT)
    behaving = target.associate()
    before = forget_peak(target.process)
    command = p_data(1, COMMAND | LAST, store_command(BASIC_TEXT))
    with ExitStack() as stack:
        slow = [stack.enter_context(closing(HostilePeer(target.port, request))) for _ in range(50)]
        for value in command + p_data(1, DATA, PART)[:100]:
            for peer in slow:
                peer.send(bytes((value,)))
            assert target.ask(behaving) == 1
        opened = target.associate()
        assert target.ask(opened) == 1
        opened.release()
        for peer in slow:
            peer.send(p_data(1, DATA, PART)[100:])
            peer.send(p_data(1, DATA | LAST, b""))
        assert Counter(peer.read()[0] for peer in slow) == {P_DATA: 50}
    behaving.release()
    assert peak_memory(target.process) - before < ROOM


def test_requests_that_do_not_wait_for_answers(target: Target) -> None:
    """Objects that are sent without waiting for answers end the association at a limit."""
    made = report(text="x" * 900_000)
    body, store = encoded(made), store_command(BASIC_TEXT, made.SOPInstanceUID)
    parts = [body[at : at + len(PART)] for at in range(0, len(body), len(PART))]
    large = p_data(1, COMMAND | LAST, store) + b"".join(p_data(1, DATA, part) for part in parts)
    before = forget_peak(target.process)
    request = request_of(target.port, BASIC_TEXT)
    with closing(HostilePeer(target.port, request)) as peer, pytest.raises(ConnectionError):
        peer.send((large + p_data(1, DATA | LAST, b"")) * 300)
    behaving = target.associate()
    assert target.ask(behaving) == 1
    behaving.release()
    assert peak_memory(target.process) - before < ROOM


def test_an_object_that_is_too_large(target: Target) -> None:
    """An object above `max_object` is refused with A700, and the association goes on."""
    modality = Modality(target.port)
    association = modality.associate(BASIC_TEXT)
    large = report(text="x" * (OBJECT + 100_000))
    assert modality.store_in(association, large).Status == 0xA700
    assert modality.store_in(association, report()).Status == 0
    association.release()


def test_an_endless_object(target: Target) -> None:
    """An object without an end costs no more memory than one of the largest size."""
    before = forget_peak(target.process)
    request = request_of(target.port, BASIC_TEXT)
    with closing(HostilePeer(target.port, request)) as peer:
        peer.send(p_data(1, COMMAND | LAST, store_command(BASIC_TEXT)))
        with pytest.raises(ConnectionError):
            peer.send(p_data(1, DATA, PART) * 10_000)
    assert peak_memory(target.process) - before < ROOM


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"\x04\x00\xff\xff\xff\xff" + bytes(100), 6),
        (b"\x04\x00\x00\x00\x00\x08\x00\x00\x00\x40\x01\x03ab", 6),
        (b"\x04\x00\x00\x00\x00\x00", 6),
        (p_data(1, COMMAND, bytes(20_000)), 0),
    ],
    ids=["a long PDU", "a value that is longer than its PDU", "no value", "a long command"],
)
def test_an_abort(target: Target, sent: bytes, reason: int) -> None:
    """An association that is ended at a limit gets an A-ABORT of the provider with the reason."""
    request = request_of(target.port, BASIC_TEXT)
    with closing(HostilePeer(target.port, request)) as peer:
        peer.send(sent)
        assert peer.read() == (ABORT, bytes((0, 0, 2, reason)))
        assert peer.read() == (0, b"")


def test_a_deflated_object(target: Target) -> None:
    """A deflated transfer syntax is not accepted, so nothing is inflated."""
    entity = AE("CT1")
    entity.add_requested_context(BASIC_TEXT, DeflatedExplicitVRLittleEndian)
    association = entity.associate("127.0.0.1", target.port, ae_title=CALLED)
    assert not association.accepted_contexts
    association.abort()


def post(target: Target, content: bytes | Iterable[bytes], **headers: str) -> int:
    """Send a STOW-RS; return the status, 0 if the connection ends before."""
    sent = {
        "authorization": "Bearer token-of-ct1",
        "content-type": 'multipart/related; type="application/dicom"; boundary=next',
    }
    more = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        return httpx.post(
            f"{target.house.url}/dicomweb/studies", content=content, headers=sent | more
        ).status_code
    except httpx.TransportError:
        return 0


def bomb(size: int) -> bytes:
    """Return a DICOM file whose data set is deflated zeros."""
    deflated = zlib.compressobj(wbits=-15)
    content = b"".join(deflated.compress(bytes(2**20)) for _ in range(size // 2**20))
    meta = meta_of(report())
    syntax = str(DeflatedExplicitVRLittleEndian)
    return write_file(
        FileMeta(meta.sop_class, meta.sop_instance, syntax), content + deflated.flush()
    )


BODIES = {
    "a deflated data set": (multipart(bomb(2**30)), 409),
    "thousands of parts": (multipart(*[b"x"] * 10_000), 400),
    "a part that never ends": (multipart(bytes(2**20))[:-20], 400),
    "a boundary in each line": (b"--next\r\n" * 100_000, 400),
    "headers without an end": (b"--next\r\n" + b"A: b\r\n" * 100_000 + b"--next--", 400),
}


@pytest.mark.parametrize(("body", "status"), BODIES.values(), ids=BODIES.keys())
def test_hostile_bodies(target: Target, body: bytes, status: int) -> None:
    """A hostile body of STOW-RS is refused, costs bounded memory, and no other request."""
    before = forget_peak(target.web_process)
    assert post(target, body) == status
    assert post(target, multipart(file_of(report()))) == 200
    assert peak_memory(target.web_process) - before < ROOM


def test_an_endless_body(target: Target) -> None:
    """A body without an end is refused at its limit; a compressed one before it is read."""
    before = forget_peak(target.web_process)
    part = multipart(bytes(2**16)).removesuffix(b"--next--\r\n")
    assert post(target, (part for _ in range(5_000))) in {0, 413}
    assert post(target, zlib.compress(bytes(2**20)), content_encoding="gzip") == 415
    assert post(target, multipart(file_of(report()))) == 200
    assert peak_memory(target.web_process) - before < ROOM


def test_a_client_that_leaves(target: Target) -> None:
    """A connection that ends within a body is a refused request, not a failure of the service."""
    refused = 'bridge_dicom_requests_total{peer="CT1",request="STOW-RS",status="400"}'
    before = target.house.metric(refused) if post(target, b"no parts") == 400 else 0.0
    head = (
        "POST /dicomweb/studies HTTP/1.1\r\nHost: bridge\r\nContent-Length: 1000\r\n"
        "Authorization: Bearer token-of-ct1\r\n"
        'Content-Type: multipart/related; type="application/dicom"; boundary=next\r\n\r\n'
    )
    with closing(HostilePeer(target.house.http_port)) as peer:
        peer.send(head.encode() + b"--next\r\n")
    eventually(lambda: target.house.metric(refused) > before)
    assert "ClientDisconnect" not in target.house.log()
