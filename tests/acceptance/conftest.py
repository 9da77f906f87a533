"""
Fixtures of the acceptance tier: running houses that are stopped whatever happens.

`running` is one service for all cases that do not disturb each other: each has patients and
accessions of its own. Its listeners differ by their settings, and `ris` receives its results.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.acceptance.hospital import Hospital
from tests.acceptance.house import House
from tests.acceptance.wire import Sink, sink


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A home that is made but not started."""
    made = House(tmp_path / "home")
    yield made
    made.kill()


@pytest.fixture(scope="session")
def ris() -> Iterator[Sink]:
    """The receiver of all results of the shared service."""
    with sink() as running:
        yield running


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """A certificate authority of the hospital."""
    return trustme.CA()


@pytest.fixture(scope="session")
def hospital(
    tmp_path_factory: pytest.TempPathFactory, ris: Sink, authority: trustme.CA
) -> Iterator[Hospital]:
    """The shared service with all its ports."""
    made = Hospital(tmp_path_factory.mktemp("house") / "home", ris, authority)
    made.house.make()
    made.house.start()
    yield made
    made.close()
    assert made.house.stop() == 0, "SIGTERM drains and exits 0"


@pytest.fixture(scope="session")
def running(hospital: Hospital) -> House:
    """The shared service."""
    return hospital.house
