"""Real processes for the tests on real sockets."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

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
