"""Applying gives way to accepting, and no more than that takes."""

import pytest

from bridge.queue.courtesy import LEAST, LONGEST, RUSH, Courtesy, nobody


class Arrivals:
    """A count of arrivals and a timer that are moved by hand."""

    def __init__(self) -> None:
        self.count, self.now = 0, 100.0
        self.courtesy = Courtesy(lambda: self.count, lambda: self.now)

    def come(self, rate: float, seconds: float = 1.0) -> None:
        """Let arrivals come at a rate."""
        self.now += seconds
        self.count += round(rate * seconds)


def pause(rate: float, took: float = 0.1) -> float:
    """Seconds to hold back at a rate, after a batch that took so long."""
    arrivals = Arrivals()
    arrivals.courtesy.worked(took)
    arrivals.come(rate)
    return arrivals.courtesy.pause


def test_nobody_is_given_way_to() -> None:
    """Where nothing arrives, nothing is held back."""
    assert pause(0) == 0
    quiet = nobody()
    quiet.worked(10.0)
    assert quiet.pause == 0
    assert not quiet.rushed


@pytest.mark.parametrize(("rate", "share"), [(100, 0.785), (1000, 0.65), (2000, 0.5)])
def test_applying_has_what_accepting_leaves(rate: float, share: float) -> None:
    """Of the time, less what arrivals need and a fifth to spare."""
    held_back = pause(rate)
    assert 0.1 / (0.1 + held_back) == pytest.approx(share, abs=0.001)


def test_a_share_always_remains() -> None:
    """However fast they come, a tenth of the time is for what was accepted; no pause is endless."""
    assert 0.1 / (0.1 + pause(50_000)) == pytest.approx(LEAST)
    assert pause(50_000, took=60.0) == LONGEST


def test_a_rush_begins_and_ends() -> None:
    """Batches are small while arrivals come faster than both can be done; then it is over."""
    arrivals = Arrivals()
    arrivals.come(RUSH * 2)
    assert arrivals.courtesy.rushed
    arrivals.come(0)
    assert not arrivals.courtesy.rushed


def test_a_glance_is_too_short_to_tell() -> None:
    """Between two samples the last rate stands: a burst of a millisecond is no rush."""
    arrivals = Arrivals()
    arrivals.come(10)
    assert not arrivals.courtesy.rushed
    arrivals.come(RUSH * 10, seconds=0.01)
    assert not arrivals.courtesy.rushed
