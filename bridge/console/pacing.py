"""
How much the indexer reads at a time, and how long it holds back after a batch.

Pure. While messages rush in it takes a small share of the time, and little at a time, for senders
have time-outs and who searches can wait; when it is quiet it catches up.
"""

from dataclasses import dataclass

RUSH = 50.0  # messages a second that came
SHARE_IN_A_RUSH = 40.0  # times of what a batch took
SHARE = 1.0
FEW, MANY = 20, 50  # messages of a batch: in a rush, and when it is quiet
SOON = 0.1  # seconds until the next few
LONGEST = 30.0  # seconds of a pause, so that a rush without end is indexed too
EVERY = 1.0  # seconds between looks when everything was read


@dataclass(frozen=True, slots=True)
class Look:
    """What there was at one moment: seconds of a clock that only goes on, the newest id."""

    at: float
    newest: int


def rate(before: Look, now: Look) -> float:
    """Give the messages a second that came between two looks."""
    return max(0, now.newest - before.newest) / max(now.at - before.at, 0.001)


def batch(rate: float) -> int:
    """Give how many messages to read at a time: who is to be acknowledged waits for as many."""
    return FEW if rate >= RUSH else MANY


def pause(rate: float, took: float, *, full: bool) -> float:
    """Give the seconds to wait after a batch that took so long; `full`: there is more."""
    if rate >= RUSH:
        return min(LONGEST, max(SOON, took * SHARE_IN_A_RUSH))
    return min(EVERY, took * SHARE) if full else EVERY
