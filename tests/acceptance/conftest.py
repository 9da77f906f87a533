"""
Fixtures of the acceptance tests: installations that are stopped after each test or session.

`running` is one service for all tests that do not disturb each other: each test uses its own
patients and accessions. Its listeners differ in their settings, and `ris` receives its results.
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
    """An installation that is not started yet."""
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
    return trustme.CA()


@pytest.fixture(scope="session")
def hospital(
    tmp_path_factory: pytest.TempPathFactory, ris: Sink, authority: trustme.CA
) -> Iterator[Hospital]:
    """The shared service with all its listeners and destinations."""
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
