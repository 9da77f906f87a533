"""The throttle: when processing pauses, and when it applies one small batch at a time."""

import pytest

from bridge.queue.worker.throttle import (
    BUSY_RATE,
    FLOOD_RATE,
    LONGEST_PAUSE,
    MINIMUM_SHARE,
    QUIET_SECONDS,
    RUSH_RATE,
    STEADY_RATE,
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
            _ = self.throttle.is_limited  # somebody looks

    @property
    def share(self) -> float:
        """Of the time, what is left for applying."""
        return 0.1 / (0.1 + self.throttle.pause)


def test_a_process_with_cpu_time_left_does_not_pause() -> None:
    """At any rate of arrivals."""
    day = Day()
    day.goes_by(5000, load=0.6)
    assert day.share == 1


@pytest.mark.parametrize("rate", [STEADY_RATE * 2, BUSY_RATE, RUSH_RATE])
def test_batches_are_small_while_messages_arrive(rate: float) -> None:
    """Also if the process has CPU time left; a few messages do not count."""
    day = Day()
    day.goes_by(STEADY_RATE / 2, load=0.1)
    assert not day.throttle.is_limited
    day.goes_by(rate, load=0.1)
    assert day.throttle.is_limited
    day.goes_by(0, load=0.1, seconds=QUIET_SECONDS + 0.25)
    assert not day.throttle.is_limited


@pytest.mark.parametrize(
    ("rate", "least"),
    [
        (RUSH_RATE * 3, MINIMUM_SHARE[RUSH_RATE]),
        (BUSY_RATE * 2, MINIMUM_SHARE[BUSY_RATE]),
        (BUSY_RATE / 5, 1.0),
        (0, 1.0),
    ],
)
def test_a_saturated_process_pauses_by_the_rate(rate: float, least: float) -> None:
    """A rush leaves a tenth of the time to processing, steady arrivals half, single ones all."""
    day = Day()
    day.goes_by(rate, load=1.0)
    assert day.share == pytest.approx(least)
    assert day.throttle.is_limited is (least < 1.0)


@pytest.mark.parametrize(
    ("rate", "share"), [(FLOOD_RATE * 0.8, 1.0), (FLOOD_RATE * 1.5, MINIMUM_SHARE[RUSH_RATE])]
)
def test_a_flood_throttles_at_a_lower_load(rate: float, share: float) -> None:
    """Slower arrivals are applied as they come while the process has CPU time left."""
    day = Day()
    day.goes_by(rate, load=0.9)
    assert day.share == pytest.approx(share)


def test_a_rush_ends() -> None:
    """When arrivals stop, the pauses end at once."""
    day = Day()
    day.goes_by(RUSH_RATE * 3, load=1.0)
    day.goes_by(0, load=1.0, seconds=0.125)
    assert day.share == 1


def test_the_share_grows_again() -> None:
    """While they still come, and there is time left."""
    day = Day()
    day.goes_by(RUSH_RATE * 3, load=1.0)
    before = day.share
    day.goes_by(RUSH_RATE * 3, load=0.5, seconds=0.5)
    assert before < day.share < 1


def test_pauses_are_bounded() -> None:
    """Also after a batch that took a minute."""
    day = Day()
    day.goes_by(RUSH_RATE * 3, load=1.0)
    day.throttle.worked(60.0)
    assert day.throttle.pause == LONGEST_PAUSE


def test_a_process_without_listeners_never_pauses() -> None:
    """It has no arrivals."""
    quiet = unthrottled()
    quiet.worked(10.0)
    assert quiet.pause == 0
    assert not quiet.is_limited
