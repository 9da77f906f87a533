"""Two nodes on PostgreSQL with a DICOM port each: they are one worklist and one archive."""

import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from pydicom.dataset import Dataset
from pydicom.uid import generate_uid

from tests.acceptance.cluster import Cluster
from tests.acceptance.house import free_port
from tests.acceptance.orders import order
from tests.bridge.dicom.modality import Modality, ended, new_step, report, scheduled
from tests.conformance.dicom.port import dump, findscu, ids
from tests.conftest import empty
from tests.eventually import eventually
from tests.programs import DCMTK

pytestmark = [pytest.mark.slow, pytest.mark.postgres, pytest.mark.needs(DCMTK)]
COUNT = 20
QUERY = dump("(0010,0020) LO", "(0010,4000) LT")
OVERLAY = "include: worklist.yaml\nitem:\n  PatientComments: second version\n"


@pytest.fixture
def nodes(postgres_url: str, tmp_path: Path) -> Iterator[tuple[Cluster, list[int]]]:
    """Two nodes that run, and their DICOM ports."""
    empty(postgres_url)
    cluster, ports = Cluster(tmp_path, postgres_url), [free_port(), free_port()]

    def settings(port: int) -> str:
        peer = '[[dicom.peer]]\nae_title = "CT1"\naddresses = ["127.0.0.1"]\n'
        may = 'may = ["worklist", "performed", "store"]\n'
        return f'[dicom]\nbind = "127.0.0.1:{port}"\nworklist = "mine"\n{peer}{may}'

    cluster.nodes[0].settings = settings(ports[0])
    cluster.make()
    cluster.nodes[1].settings = settings(ports[1])
    for node in cluster.nodes:
        node.configure()
        mine = node.home / "mappings" / "mine.yaml"
        mine.write_text("include: worklist.yaml\n", "utf-8")
    cluster.start()
    yield cluster, ports
    cluster.close()


def at_once(*requests: Callable[[], Dataset]) -> list[int]:
    """Send requests at the same time; return their statuses, sorted."""
    barrier, statuses = threading.Barrier(len(requests)), list[int]()

    def send(request: Callable[[], Dataset]) -> None:
        barrier.wait()
        statuses.append(request().Status)

    threads = [threading.Thread(target=send, args=(request,)) for request in requests]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(statuses)


def test_both_nodes_receive(nodes: tuple[Cluster, list[int]]) -> None:
    """The same step or object that comes to both nodes at once is stored and applied once."""
    cluster, ports = nodes
    cluster.nodes[0].send(*(order(number) for number in range(1, COUNT + 1)))
    modalities = [Modality(port) for port in ports]
    for number in range(1, COUNT + 1):
        uid, made = generate_uid(), report(accession=f"A{number}", mrn=f"M{number}")
        step = new_step(scheduled(f"A{number}"), mrn=f"M{number}")
        creations = [partial(modality.create_now, uid, step) for modality in modalities]
        assert at_once(*creations) == [0x0000, 0x0111]
        objects = [partial(modality.store_now, made) for modality in modalities]
        assert at_once(*objects) == [0x0000, 0x0000]
        ends = [partial(modality.set_now, uid, ended()) for modality in modalities]
        assert at_once(*ends) == [0x0000, 0x0110]
    expected = [(kind, "done", COUNT) for kind in ("C-STORE SR", "N-CREATE MPPS", "N-SET MPPS")]
    counts = (
        "SELECT message_type, state, count(*) FROM message WHERE listener = 'dicom'"
        " GROUP BY message_type, state ORDER BY message_type"
    )
    eventually(lambda: cluster.query(counts) == expected)
    assert cluster.query("SELECT count(*) FROM engine_report_file") == [(COUNT,)]
    assert cluster.query("SELECT DISTINCT status FROM scheduled_step") == [("COMPLETED",)]


def test_both_nodes_serve_one_worklist(nodes: tuple[Cluster, list[int]]) -> None:
    """
    Orders that come to either node, and a new definition, are seen at both; each step is one row.
    After kill -9 of one node the other one serves all.
    """
    cluster, ports = nodes
    first, second = cluster.nodes
    first.send(*(order(number) for number in range(0, COUNT, 2)))
    second.send(*(order(number) for number in range(1, COUNT, 2)))
    expected = sorted(f"M{number}" for number in range(COUNT))
    for port in ports:
        assert sorted(ids(findscu(port, QUERY)[0])) == expected
    first.bridge("mapping", "activate", "mine", "--reason", "first")
    (first.home / "mappings" / "mine.yaml").write_text(OVERLAY, "utf-8")
    first.bridge("mapping", "activate", "mine", "--reason", "second")

    def comments(port: int) -> list[str]:
        return [str(answer.PatientComments) for answer in findscu(port, QUERY)[0]]

    for port in ports:
        eventually(lambda: comments(port) == ["second version"] * COUNT)  # noqa: B023
    first.kill()
    second.send(order(COUNT))
    assert comments(ports[1]) == ["second version"] * (COUNT + 1)
