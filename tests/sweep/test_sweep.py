"""After a single failed call no acknowledgment is false, no data is lost, and the service runs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.programs import FUSE, STRACE
from tests.sweep.sweep import Installation, installed, sweep, sweep_migration
from tests.sweep.system_calls import sweep_calls

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs(*FUSE),
]


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A service on a disk that can fail."""
    with installed(tmp_path_factory.mktemp("sweep")) as running:
        yield running


@pytest.mark.parametrize(
    ("scenario", "first"), [("order", 1000), ("change", 2000), ("merge", 3000), ("addendum", 4000)]
)
def test_calls_of_the_disk(scenario: str, first: int, installation: Installation) -> None:
    """The guarantees hold after failed disk calls; `make sweep` fails each call of a scenario."""
    swept = sweep(installation, scenario, first, step=60)
    assert swept.faults >= 4
    assert swept.wrong == []


@pytest.mark.needs(STRACE)
def test_system_calls(installation: Installation, tmp_path: Path) -> None:
    """The guarantees hold after failed calls for sockets, descriptors, threads and memory."""
    swept = sweep_calls(installation, "signature", 5000, tmp_path / "trace", step=15)
    assert swept.faults >= 4
    assert swept.wrong == []


def test_calls_of_a_migration(tmp_path: Path) -> None:
    """After a failed migration the next one succeeds."""
    assert sweep_migration(tmp_path, step=300).wrong == []
