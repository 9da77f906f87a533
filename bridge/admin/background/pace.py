"""The share of the processor's time that background jobs take."""

from typing import Final

from bridge.admin.search.message_index import BUSY_RATE

SLICE: Final = 0.05
"""Seconds of work between two pauses."""
SHARE: Final = 0.5
BUSY_SHARE: Final = 0.05
"""The share while messages arrive at `BUSY_RATE` a second or faster."""
MAX_PAUSE: Final = 10.0
IDLE_PAUSE: Final = 2.0


def pause_seconds(rate: float, took: float) -> float:
    """Return the pause after work that took `took` seconds; `rate`: arriving messages a second."""
    share = BUSY_SHARE if rate >= BUSY_RATE else SHARE
    return min(MAX_PAUSE, took * (1 / share - 1))
