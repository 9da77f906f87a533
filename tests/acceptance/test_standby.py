"""A failover to a real standby: the lost commits, and service without a restart."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from bridge.runtime.membership import LATE_SECONDS
from tests.acceptance.house import House
from tests.acceptance.orders import order
from tests.acceptance.standby import Pair, end, pair
from tests.acceptance.test_kill import Feed, broken_promises, has_sent
from tests.acceptance.wire import Sender, verdict
from tests.eventually import eventually

pytestmark = pytest.mark.slow

CONNECTIONS, PATIENTS = 5, 40

_WAIT_MS = """
    SELECT min(settled_at) - max(seen_at) FROM message, server_timeline WHERE settled_at > seen_at
        AND seen_at > 0
"""
"""From the promotion of the standby to the first message that was applied on it."""


@pytest.fixture
def servers() -> Iterator[Pair]:
    """A primary and a standby."""
    with pair() as running:
        yield running


@pytest.fixture
def running(servers: Pair, tmp_path: Path) -> Iterator[House]:
    """A service on both servers."""
    house = House(tmp_path / "home", database=servers.url)
    house.make()
    house.start()
    yield house
    house.kill()


def test_a_failover_to_a_synchronous_standby_loses_nothing(running: House, servers: Pair) -> None:
    """After the loss of the primary under load, each acknowledged order is listed once."""
    servers.make_synchronous()
    feeds = [
        Feed(running.mllp_port, range(first, PATIENTS, CONNECTIONS)) for first in range(CONNECTIONS)
    ]
    for feed in feeds:
        feed.start()
    eventually(partial(has_sent, feeds, sum(len(feed.messages) for feed in feeds) // 2))
    servers.fail_over()
    for feed in feeds:
        feed.join()
    running.settle()
    assert broken_promises(running, feeds) == []


def test_a_failover_to_a_late_standby_loses_the_last_commits_only(
    running: House, servers: Pair
) -> None:
    """
    Orders before the lost commits and after the failover are listed, each once.

    The latter are acknowledged at once, and applied when no call of before can be executed.
    """
    send(running, range(20))
    running.settle()
    servers.wait_for_replay()
    end(servers.standby)
    send(running, range(20, 40))
    running.settle()
    end(servers.primary)
    servers.standby.start()
    servers.fail_over()
    eventually(partial(is_acknowledged, running, 40))
    send(running, range(41, 60))
    running.settle()
    accessions = [each["Accession"] for row in running.worklist() for each in row["orders"]]
    assert sorted(accessions) == sorted(f"A{number}" for number in [*range(20), *range(40, 60)])
    assert servers.ask_standby(_WAIT_MS) >= LATE_SECONDS * 1000


def send(house: House, numbers: range) -> None:
    """Send orders; each is acknowledged."""
    with Sender(house.mllp_port) as sender:
        for number in numbers:
            assert verdict(sender.ask(order(number))) == ("AA", f"C{number}")


def is_acknowledged(house: House, number: int) -> bool:
    """Send an order, and tell whether it was acknowledged positively."""
    try:
        with Sender(house.mllp_port) as sender:
            return verdict(sender.ask(order(number)))[0] == "AA"
    except (OSError, AssertionError):
        return False
