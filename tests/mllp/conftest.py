"""A test clock that must have no pending calls at the end, and processes for real sockets."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from twisted.internet.task import Clock

from mllp.testing import deliver_all
from tests.mllp.certificates import Certificates
from tests.mllp.client_fixture import ClientHarness
from tests.mllp.process import Live
from tests.mllp.server_fixture import ManualHandler, RecordingObserver


@pytest.fixture
def live() -> Iterator[Callable[..., Live]]:
    """Start `live.py` with options. The fixture kills it at the end if it still runs."""
    running: list[Live] = []

    def start(command: str, **options: Any) -> Live:
        running.append(Live(command, options))
        return running[-1]

    yield start
    for one in running:
        one.kill()


@pytest.fixture
def clock() -> Iterator[Clock]:
    """A test clock that has no pending calls at the end."""
    clock = Clock()
    yield clock
    assert not clock.getDelayedCalls()


@pytest.fixture
def handler() -> ManualHandler:
    return ManualHandler()


@pytest.fixture
def observer() -> RecordingObserver:
    return RecordingObserver()


@pytest.fixture
def harness() -> Iterator[ClientHarness]:
    """A client and its receiver. At the end the client closes and leaves no pending calls."""
    harness = ClientHarness(Clock())
    yield harness
    closed: list[object] = []
    harness.client.close().addCallback(closed.append)
    deliver_all(harness.clock)
    assert closed == [None]
    assert not harness.clock.getDelayedCalls()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))
