"""A hospital with a PACS: kill -9 at every point loses no report, and none is stored twice."""

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from pydicom import Dataset
from pynetdicom import evt
from sqlalchemy import select

from bridge.store.database import Database
from bridge.store.tables import STORAGE_COMMITMENTS
from tests.acceptance.cluster import Cluster
from tests.acceptance.house import House, free_port
from tests.acceptance.orders import order
from tests.bridge.delivery.pacs import Pacs, accepts_connections, pacs, report_later, stow_service
from tests.conftest import empty
from tests.eventually import eventually


class KilledHouse:
    """An installation whose destination is a PACS, and which is killed by it."""

    def __init__(self, home: Path, database: str, archive: Pacs, **dicom: Any) -> None:
        self.house = House(home, database=database)
        self.house.destination(
            "pacs",
            0,
            address=f"dicom://PACS@127.0.0.1:{archive.port}",
            ack_timeout="10s",
            dicom={"forms": ["sr"], **dicom},
        )
        self.reached = threading.Event()
        self.released = threading.Event()

    def hold(self, *_: Any) -> None:
        """Wait within a request until the bridge was killed."""
        self.reached.set()
        self.released.wait()

    def kill_here(self) -> None:
        """Kill the bridge while the PACS holds its request; start it again."""
        assert self.reached.wait(120)
        self.house.kill()
        self.released.set()
        self.house.start()


@pytest.mark.parametrize("point", ["before storing", "after storing"])
def test_kill_during_a_transfer(tmp_path: Path, point: str) -> None:
    """The object is sent again with the same UID, whether the PACS had stored it or not."""
    seen: list[str] = []
    killed: KilledHouse

    def hold_first(data: Dataset, event: evt.Event) -> int:
        seen.append(str(data.SOPInstanceUID))
        if len(seen) == 1:
            if point == "after storing":
                archive.stored.append(data)
            killed.hold()
            return 0xC000  # nobody reads it
        return 0x0000

    with pacs(status=hold_first) as archive:
        killed = KilledHouse(tmp_path / "home", "", archive)
        killed.house.make()
        killed.house.start()
        try:
            killed.house.send(order(1))
            killed.house.draft("M1", "A1", "Normal.")
            killed.house.sign("M1", "A1", ignoreSignDelay=True)
            killed.kill_here()
            eventually(lambda: len(seen) >= 2)
            eventually(lambda: _delivered(killed.house) == 1)
        finally:
            killed.house.kill()
    assert len(set(seen)) == 1


@pytest.mark.parametrize(
    "dialect", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)]
)
def test_kill_during_a_request_for_commitment(
    tmp_path: Path, dialect: str, request: pytest.FixtureRequest
) -> None:
    """
    After the kill the objects are sent and the request is made again.

    The PACS refuses that one, so the service repeats it, without the objects. The answer comes at
    the DICOM port after another kill, and finds the request.
    """
    url = request.getfixturevalue("postgres_url") if dialect == "postgresql" else ""
    port = free_port()
    killed: KilledHouse

    def hold_first(event: evt.Event, information: Dataset) -> None:
        if len(archive.events) == 1:
            archive.action_status = 0x0110  # also of the next request
            killed.hold()

    with pacs(report=hold_first) as archive:
        killed = KilledHouse(tmp_path / "home", url, archive, commitment=True)
        house = killed.house
        house.settings += f'[dicom]\nbind = "127.0.0.1:{port}"\n'
        house.sections.append(
            '[[dicom.peer]]\nae_title = "PACS"\naddresses = ["127.0.0.1/32"]\n'
            'may = ["commitment"]\n'
        )
        house.make()
        house.start()
        try:
            house.send(order(1))
            house.draft("M1", "A1", "Normal.")
            house.sign("M1", "A1", ignoreSignDelay=True)
            killed.kill_here()
            eventually(lambda: len(archive.requests) >= 2)
            eventually(lambda: _delivered(house) == 1)
            stored = len(archive.stored)
            archive.action_status = 0x0000
            eventually(lambda: len(archive.events) >= 2)
            house.kill()
            house.start()
            eventually(lambda: accepts_connections(port))
            assert report_later(port, archive.events[-1]) == 0x0000
            # The first request was replaced; a PACS that answers it, too, need not repeat that.
            assert report_later(port, archive.events[0]) == 0x0000
            assert _commitments(house).count("committed") == 1
        finally:
            house.kill()
    assert len(archive.stored) == stored >= 2
    assert len(set(archive.instances())) == 1


def test_a_dicom_process_that_outlives_the_kill(tmp_path: Path) -> None:
    """
    The DICOM port is a process that may be slow to end on a busy machine.

    The next node has the name of the killed one, and so its claims: they need not expire.
    """

    def hold_first(data: Dataset, event: evt.Event) -> int:
        if not killed.reached.is_set():
            killed.hold()
        return 0x0000

    with pacs(status=hold_first) as archive:
        killed = KilledHouse(tmp_path / "home", "", archive)
        house = killed.house
        house.settings = f'[dicom]\nbind = "127.0.0.1:{free_port()}"\n'
        house.make()
        service = house.start()
        _, dicom = service.children()
        try:
            house.send(order(1))
            house.draft("M1", "A1", "Normal.")
            house.sign("M1", "A1", ignoreSignDelay=True)
            assert killed.reached.wait(120)
            os.kill(dicom, signal.SIGSTOP)
            house.kill()
            killed.released.set()
            house.settings = f'[dicom]\nbind = "127.0.0.1:{free_port()}"\n'  # the other is in use
            house.configure()
            house.start()
            assert [slot.name for slot in (house.home / "run").glob("node-*")] == ["node-0"]
            eventually(lambda: _delivered(house) == 1)
        finally:
            os.kill(dicom, signal.SIGKILL)
            house.kill()


@pytest.mark.postgres
@pytest.mark.parametrize("way", ["C-STORE", "STOW-RS"])
def test_two_nodes_send_to_one_pacs(tmp_path: Path, postgres_url: str, way: str) -> None:
    """
    A node is killed after the PACS replied and before it has recorded the reply. The other node
    sends the same objects; the PACS has each report once in each form.
    """
    empty(postgres_url)
    cluster, received, frozen = Cluster(tmp_path, postgres_url), list[Dataset](), list[House]()

    all_signed = threading.Event()

    def store(data: Dataset, *_: object) -> int:
        all_signed.wait()
        received.append(data)
        if len(received) == REPORTS:  # half of the objects
            node = cluster.node_of(_owner(cluster, data))
            assert node.service is not None
            for process in node.service.processes():
                os.kill(process, signal.SIGSTOP)
            frozen.append(node)
        return 0x0000

    with pacs(status=store) as archive, stow_service(store) as port:
        address = f"dicom://PACS@127.0.0.1:{archive.port}"
        if way == "STOW-RS":
            address = f"dicomweb+http://127.0.0.1:{port}"
        cluster.nodes[0].destination("pacs", 0, address=address, dicom={"forms": ["pdf", "sr"]})
        cluster.make()
        cluster.start()
        try:
            cluster.nodes[0].send(*(order(number) for number in range(REPORTS)))
            for number in range(REPORTS):
                node = cluster.nodes[number % 2]
                node.draft(f"M{number}", f"A{number}", f"Report {number}.")
            signing = cluster.nodes[0]
            for number in range(REPORTS):
                signing.sign(f"M{number}", f"A{number}", ignoreSignDelay=True)
            all_signed.set()
            eventually(lambda: frozen)
            frozen[0].kill()
            eventually(lambda: cluster.query(_STATES) == [("done", REPORTS)])
        finally:
            all_signed.set()
            cluster.close()
    sent: dict[tuple[str, str], list[Dataset]] = {}
    for data in received:
        sent.setdefault((data.AccessionNumber, data.Modality), []).append(data)
    accessions = [f"A{number}" for number in range(REPORTS)]
    assert sorted(sent) == [(one, form) for one in accessions for form in ("DOC", "SR")]
    assert any(len(copies) > 1 for copies in sent.values())
    for first, *others in sent.values():
        assert all(copy == first for copy in others)
    assert len({data.SOPInstanceUID for data in received}) == 2 * REPORTS


REPORTS = 6
_STATES = "SELECT state, count(*) FROM delivery GROUP BY state"


def _owner(cluster: Cluster, data: Dataset) -> str:
    """Return the name of the node that sends an object."""
    bodies = "SELECT owner, payload FROM delivery JOIN delivery_body ON delivery_id = id"
    instance = data.SOPInstanceUID.encode()
    (owner,) = [
        owner
        for owner, payload in cluster.query(bodies)
        if isinstance(payload, bytes) and instance in payload
    ]
    return str(owner)


def _commitments(house: House) -> list[str]:
    """Return the states of the requests for commitment."""
    database = Database(house.database or f"sqlite:///{house.home / 'bridge.db'}")
    try:
        with database.read() as connection:
            return list(connection.scalars(select(STORAGE_COMMITMENTS.c.state)))
    finally:
        database.dispose()


def _delivered(house: House) -> float:
    shown = 'bridge_deliveries_total{destination="pacs",outcome="accepted",reply="dicom"}'
    try:
        return house.metric(shown)
    except StopIteration:
        return 0
