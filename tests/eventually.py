"""Wait until something holds that another thread or process does."""

import time
from collections.abc import Callable

_PATIENCE = 60.0  # seconds; a busy machine takes its time
_PAUSE = 0.01


def eventually(holds: Callable[[], object]) -> None:
    """Ask until it holds; fails where it never does."""
    until = time.monotonic() + _PATIENCE
    while not holds():
        assert time.monotonic() < until, "it never came to hold"
        time.sleep(_PAUSE)
