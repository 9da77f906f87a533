"""Two nodes of one machine share a port; one node is enough."""

import contextlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.acceptance.cluster import Cluster
from tests.acceptance.house import House
from tests.acceptance.orders import order
from tests.acceptance.wire import Sender, verdict
from tests.conftest import empty
from tests.eventually import PATIENCE, eventually

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

CONNECTIONS = 32
FRAMES = 'bridge_mllp_frames_total{listener="orders"} '


@pytest.fixture
def cluster(postgres_url: str, tmp_path: Path) -> Iterator[Cluster]:
    empty(postgres_url)
    made = Cluster(tmp_path, postgres_url)
    one, two = made.nodes
    two.mllp_port = one.mllp_port
    one.listener_extra = two.listener_extra = "share_port = true"
    made.make()
    made.start()
    yield made
    made.close()


def frames(node: House) -> float:
    lines = httpx.get(f"{node.url}/metrics", timeout=PATIENCE).text.splitlines()
    return sum(float(line.removeprefix(FRAMES)) for line in lines if line.startswith(FRAMES))


def ask(port: int, number: int) -> None:
    """Send an order until it is acknowledged: a connection to a killed node breaks."""

    def reply() -> bytes | None:
        with contextlib.suppress(OSError), Sender(port) as sender:
            return sender.ask(order(number))
        return None

    assert verdict(eventually(reply)) == ("AA", f"C{number}")


def test_both_nodes_receive_and_one_is_enough(cluster: Cluster) -> None:
    """The kernel distributes connections. After one node is killed, the other receives all."""
    one, two = cluster.nodes
    with ExitStack() as stack:
        senders = [stack.enter_context(Sender(one.mllp_port)) for _ in range(CONNECTIONS)]
        for number, sender in enumerate(senders):
            assert verdict(sender.ask(order(number))) == ("AA", f"C{number}")
    assert frames(one) > 0
    assert frames(two) > 0
    assert frames(one) + frames(two) == CONNECTIONS

    two.kill()
    for number in range(CONNECTIONS, CONNECTIONS + 8):
        ask(one.mllp_port, number)

    ((stored,),) = cluster.query("SELECT count(*) FROM message")
    assert stored == CONNECTIONS + 8
