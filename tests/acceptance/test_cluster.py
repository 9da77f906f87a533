"""Several nodes on one PostgreSQL: the others take over a failed node's work, exactly once."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psycopg
import pytest

from bridge.queue.wakeup import CHANNEL
from tests.acceptance.cluster import Cluster
from tests.acceptance.forked import ROOT
from tests.acceptance.orders import order
from tests.acceptance.test_kill import Feed, broken_promises, course, expected
from tests.acceptance.wire import Sender, control_id, sink, verdict
from tests.conftest import empty
from tests.eventually import PATIENCE, eventually
from tests.programs import HAPROXY
from tests.soak import trace

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

PATIENTS = 48
CONNECTIONS = 6
IDLE = 8.0  # seconds
SESSIONS = "SELECT query FROM pg_stat_activity"
TRANSACTIONS = 12.0  # a second and node
ENDED = """
    SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()
"""
IMPATIENT = """
import runpy
from bridge.store.postgresql import dedicated_connections

dedicated_connections.START_TIMEOUT_SECONDS = 2
runpy.run_module("bridge", run_name="__main__", alter_sys=True)
"""
PRUNING = '[retention]\nkeep = "1000d"\nevery = "1s"\n'


@pytest.fixture
def cluster(postgres_url: str, tmp_path: Path) -> Iterator[Cluster]:
    """Two nodes on an empty database, not started yet."""
    empty(postgres_url)
    made = Cluster(tmp_path, postgres_url)
    yield made
    made.close()


def silent_at_first(message: bytes, attempts: int) -> bytes:
    """Do not reply to the first attempt; accept the second."""
    return b"\x0b" + _accepted(message) + b"\x1c\r" if attempts else b""


def _accepted(message: bytes) -> bytes:
    return b"MSH|^~\\&|S|S|B|B|20260101||ACK|1|P|2.5.1\rMSA|AA|" + control_id(message) + b"\r"


def test_a_delivery_in_flight_is_taken_over(cluster: Cluster) -> None:
    """When a node dies while it waits for the ACK, the other node sends the same bytes."""
    with sink(silent_at_first) as ris:
        cluster.nodes[0].destination("ris", ris.port, ack_timeout="60s")
        cluster.make()
        cluster.start()
        cluster.nodes[1].draft("M1", "A1", "Nothing found.")
        cluster.nodes[1].sign("M1", "A1")
        (first,) = ris.wait(1)
        ((owner,),) = cluster.query("SELECT owner FROM delivery WHERE state = 'claimed'")
        cluster.node_of(str(owner)).kill()
        ris.wait(2)
        eventually(lambda: _delivered(cluster) == 1)

    assert ris.received == [first, first]


def _delivered(cluster: Cluster) -> int:
    return len(cluster.query("SELECT id FROM delivery WHERE state = 'done'"))


def test_one_node_prunes_and_another_takes_over(
    cluster: Cluster,
) -> None:
    cluster.nodes[0].settings = PRUNING
    cluster.make()
    cluster.start()
    eventually(lambda: _pruning(cluster))
    time.sleep(3)  # rounds in which a second node would prune too
    (leader,) = _pruning(cluster)
    cluster.nodes[leader].kill()
    eventually(lambda: _pruning(cluster) == {0, 1})


def _pruning(cluster: Cluster) -> set[int]:
    return {number for number, node in enumerate(cluster.nodes) if "pruned" in node.log()}


@pytest.mark.needs(HAPROXY)
def test_orders_survive_rolling_restarts_and_kills_behind_haproxy(cluster: Cluster) -> None:
    """Nodes restart and die while senders send. The worklist shows each order's last state once."""
    cluster.name_sessions()
    cluster.make()
    cluster.nodes[0].bridge("migrate")
    trace.install(cluster.url)
    cluster.start()
    cluster.balance()
    feeds = [Feed(cluster.port, range(at, PATIENTS, CONNECTIONS)) for at in range(CONNECTIONS)]
    for feed in feeds:
        feed.start()
    for node in cluster.nodes:
        assert node.stop() == 0
        node.start()
        node.kill()
        node.start()
    for feed in feeds:
        feed.join()
    assert [feed.acknowledged for feed in feeds] == [len(feed.messages) for feed in feeds]
    cluster.nodes[0].settle()
    found = sorted(
        (listed["PatientMRN"], listed["Accession"], listed["StudyDescription"])
        for row in cluster.nodes[1].worklist()
        for listed in row["orders"]
    )
    stored = cluster.query("SELECT count(*) FROM message")

    assert found == expected(PATIENTS)
    assert stored == [(sum(len(course(number)) for number in range(PATIENTS)),)]
    assert broken_promises(cluster.nodes[1], feeds) == []
    taken = list(trace.steps(cluster.url))
    assert {step.actor for step in taken} == {node.home.name for node in cluster.nodes}
    assert trace.problems(taken) == []


def impatient(
    arguments: Sequence[str], env: Mapping[str, str], output: Path, errors: Path
) -> subprocess.Popen[bytes]:
    """Run `bridge` with a short wait for the node's name."""
    command = [sys.executable, "-c", IMPATIENT, *arguments]
    env = {**os.environ, **env}
    with output.open("ab") as out, errors.open("ab") as err:
        return subprocess.Popen(command, cwd=ROOT, env=env, stdout=out, stderr=err)


def test_a_copied_home_is_another_node_and_the_same_name_is_refused(cluster: Cluster) -> None:
    """A HOME that was copied with its folder `run` does not start beside its original."""
    cluster.make()
    first, second = cluster.nodes
    first.start()
    second.start()
    second.stop()
    name = (first.home / "run" / "node-0").read_bytes()
    (second.home / "run" / "node-0").write_bytes(name)
    second.program = impatient

    with pytest.raises(AssertionError, match="this node's name"):
        second.start()


def test_a_replay_is_announced_to_the_nodes(cluster: Cluster) -> None:
    """`bridge messages replay` notifies the channel on which the nodes listen."""
    cluster.make()
    first = cluster.nodes[0]
    first.start()
    with Sender(first.mllp_port) as sender:
        assert verdict(sender.ask(order(1))) == ("AA", "C1")
    first.settle()
    assert [query for (query,) in cluster.query(SESSIONS) if f"LISTEN {CHANNEL}" in str(query)]
    assert first.stop() == 0
    address = cluster.url.replace("postgresql+psycopg://", "postgresql://")
    with psycopg.connect(address, autocommit=True) as other:
        other.execute(f"LISTEN {CHANNEL}")
        first.bridge("messages", "replay", "1")
        assert [notify.channel for notify in other.notifies(timeout=PATIENCE, stop_after=1)] == [
            CHANNEL
        ]


def test_an_idle_node_hardly_asks_the_database(cluster: Cluster) -> None:
    """
    An idle node begins at most twelve transactions a second, also of single statements.

    The processor time itself is no measure: the same work takes a multiple on a busy machine. The
    end of a start, and the database that analyzes its new tables, count too, so several spans are
    measured until one is idle.
    """

    def begun() -> float:
        before = transactions(cluster)
        time.sleep(IDLE)  # the idle time is measured
        return (transactions(cluster) - before) / len(cluster.nodes) / IDLE

    with sink() as ris:
        cluster.nodes[0].destination("ris", ris.port)
        cluster.make()
        cluster.start()
        eventually(lambda: begun() <= TRANSACTIONS)


def transactions(cluster: Cluster) -> int:
    """Return how many transactions the database has ended, also of single statements."""
    ((ended,),) = cluster.query(ENDED)
    return int(str(ended))
