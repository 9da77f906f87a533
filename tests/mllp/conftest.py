"""A clock that nobody may be left waiting for, and real processes for real sockets."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from twisted.internet.task import Clock

from mllp.testing import settle
from tests.mllp.bench import Bench
from tests.mllp.desk import Counter, Desk
from tests.mllp.papers import Papers
from tests.mllp.process import Live


@pytest.fixture
def live() -> Iterator[Callable[..., Live]]:
    """Start `live.py` with options; whatever still runs at the end is killed."""
    running: list[Live] = []

    def start(command: str, **options: Any) -> Live:
        running.append(Live(command, options))
        return running[-1]

    yield start
    for one in running:
        one.kill()


@pytest.fixture
def clock() -> Iterator[Clock]:
    """The time; at the end nobody may be waiting for any of it."""
    clock = Clock()
    yield clock
    assert not clock.getDelayedCalls()


@pytest.fixture
def desk() -> Desk:
    """A handler that waits for the test."""
    return Desk()


@pytest.fixture
def counter() -> Counter:
    """An observer that remembers."""
    return Counter()


@pytest.fixture
def bench() -> Iterator[Bench]:
    """Everything set up; at the end the client closes and leaves nothing behind."""
    bench = Bench(Clock())
    yield bench
    closed: list[object] = []
    bench.client.close().addCallback(closed.append)
    settle(bench.clock)
    assert closed == [None]
    assert not bench.clock.getDelayedCalls()


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    """Fresh certificates."""
    return Papers(tmp_path_factory.mktemp("papers"))
