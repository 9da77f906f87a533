"""A power failure under load loses and duplicates no acknowledged message or accepted result."""

import random
from pathlib import Path

import pytest

from tests.power.drill import cut, record, unsynced
from tests.programs import FUSE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs(*FUSE),
]


def moments(events: list[tuple[int, object]], count: int, seed: int) -> list[int]:
    chance = random.Random(seed)
    return sorted(chance.randrange(events[0][0], events[-1][0]) for _ in range(count))


@pytest.mark.parametrize("server", [False, pytest.param(True, marks=pytest.mark.postgres)])
def test_nothing_is_lost(server: bool, tmp_path: Path) -> None:
    """After each cut the service starts and the history is consistent."""
    run = record(tmp_path, 3, server=server)
    chosen = moments([*run.events], 2 if server else 4, 1)
    assert [problem for _, found in cut(run, chosen, 1, tmp_path) for problem in found] == []


def test_the_drill_notices_a_loss(tmp_path: Path) -> None:
    """A service that does not sync each commit loses messages that it acknowledged."""
    run = record(tmp_path, 2, server=False, program=unsynced)
    cuts = cut(run, moments([*run.events], 2, 1), 1, tmp_path, patience=1)  # nothing more comes
    wrong = [found for _, found in cuts]
    assert any("acknowledged and not listed" in item for found in wrong for item in found)
