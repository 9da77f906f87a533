"""A test clock that must have no pending calls at the end, and processes for real sockets."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from twisted.internet.task import Clock

from mllp.testing import deliver_all
from tests.mllp.certificates import Papers
from tests.mllp.client_fixture import Bench
from tests.mllp.process import Live
from tests.mllp.server_fixture import Counter, Desk


@pytest.fixture
def live() -> Iterator[Callable[..., Live]]:
    """Start `live.py` with options; it is killed at the end if it still runs."""
    running: list[Live] = []

    def start(command: str, **options: Any) -> Live:
        running.append(Live(command, options))
        return running[-1]

    yield start
    for one in running:
        one.kill()


@pytest.fixture
def clock() -> Iterator[Clock]:
    """A clock; at the end it must have no pending calls."""
    clock = Clock()
    yield clock
    assert not clock.getDelayedCalls()


@pytest.fixture
def desk() -> Desk:
    """A handler that waits for the test."""
    return Desk()


@pytest.fixture
def counter() -> Counter:
    """An observer that records events."""
    return Counter()


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A client with its receiver; at the end it closes and leaves nothing pending."""
    bench = Bench(Clock())
    yield bench
    closed: list[object] = []
    bench.client.close().addCallback(closed.append)
    deliver_all(bench.clock)
    assert closed == [None]
    assert not bench.clock.getDelayedCalls()


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    """Fresh certificates."""
    return Papers(tmp_path_factory.mktemp("papers"))
