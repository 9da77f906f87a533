"""Fixtures of the acceptance tier: a running house that is stopped whatever happens."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.house import House


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A home that is made but not started."""
    made = House(tmp_path / "home")
    yield made
    made.kill()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One started service for all cases of a module that do not disturb each other."""
    made = House(tmp_path_factory.mktemp("house") / "home")
    made.make()
    made.start()
    yield made
    assert made.stop() == 0, "SIGTERM drains and exits 0"
