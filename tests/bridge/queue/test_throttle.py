"""Applying gives way to accepting where the process cannot do both, and no more than that takes."""

import pytest

from bridge.queue.worker.throttle import (
    BUSY_RATE,
    FLOOD_RATE,
    LONGEST_PAUSE,
    MINIMUM_SHARE,
    RUSH_RATE,
    ProcessingThrottle,
    unthrottled,
)


class Day:
    """Arrivals, a timer and a processor that are moved by hand."""

    def __init__(self) -> None:
        self.count, self.now, self.spent = 0, 100.0, 7.0
        self.throttle = ProcessingThrottle(lambda: self.count, lambda: self.now, lambda: self.spent)
        self.throttle.worked(0.1)

    def goes_by(self, rate: float, load: float, seconds: float = 3.0) -> None:
        """Let arrivals come at a rate, and the process be so busy, for some seconds."""
        for _ in range(round(seconds * 8)):
            self.now += 0.125
            self.spent += load * 0.125
            self.count += round(rate * 0.125)
            _ = self.throttle.is_loaded  # somebody looks

    @property
    def share(self) -> float:
        """Of the time, what is left for applying."""
        return 0.1 / (0.1 + self.throttle.pause)


def test_a_process_with_time_left_holds_nothing_back() -> None:
    """However fast arrivals come."""
    day = Day()
    day.goes_by(5000, load=0.6)
    assert day.share == 1
    assert not day.throttle.is_loaded


@pytest.mark.parametrize(
    ("rate", "least"),
    [
        (RUSH_RATE * 3, MINIMUM_SHARE[RUSH_RATE]),
        (BUSY_RATE * 2, MINIMUM_SHARE[BUSY_RATE]),
        (BUSY_RATE / 5, 1.0),
        (0, 1.0),
    ],
)
def test_a_busy_one_gives_way_by_the_rate(rate: float, least: float) -> None:
    """To a rush nearly all, to what comes steadily half, to single messages nothing."""
    day = Day()
    day.goes_by(rate, load=1.0)
    assert day.share == pytest.approx(least)
    assert day.throttle.is_loaded is (least < 1.0)


@pytest.mark.parametrize(
    ("rate", "share"), [(FLOOD_RATE * 0.8, 1.0), (FLOOD_RATE * 1.5, MINIMUM_SHARE[RUSH_RATE])]
)
def test_a_flood_is_given_way_to_sooner(rate: float, share: float) -> None:
    """What can be applied as it comes is, as long as the process is not busy all the time."""
    day = Day()
    day.goes_by(rate, load=0.9)
    assert day.share == pytest.approx(share)


def test_a_rush_ends() -> None:
    """When arrivals stop, what was accepted is applied at full speed at once."""
    day = Day()
    day.goes_by(RUSH_RATE * 3, load=1.0)
    day.goes_by(0, load=1.0, seconds=0.125)
    assert day.share == 1
    assert not day.throttle.is_loaded


def test_the_share_grows_again() -> None:
    """While they still come, and there is time left."""
    day = Day()
    day.goes_by(RUSH_RATE * 3, load=1.0)
    before = day.share
    day.goes_by(RUSH_RATE * 3, load=0.5, seconds=0.5)
    assert before < day.share < 1


def test_no_pause_is_endless() -> None:
    """Whatever a batch took."""
    day = Day()
    day.goes_by(RUSH_RATE * 3, load=1.0)
    day.throttle.worked(60.0)
    assert day.throttle.pause == LONGEST_PAUSE


def test_nobody_is_given_way_to() -> None:
    """A worker by itself never waits."""
    quiet = unthrottled()
    quiet.worked(10.0)
    assert quiet.pause == 0
    assert not quiet.is_loaded
