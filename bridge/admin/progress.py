"""Progress of long operations: an operation reports what it does, and a command shows it."""

from collections.abc import Callable
from typing import Final

Report = Callable[[str, int, int], None]
"""Is called with the step, and how much of it is done, of how much (0: unknown)."""


def _ignore(step: str, done: int, total: int) -> None:
    return


NOT_SHOWN: Final[Report] = _ignore
