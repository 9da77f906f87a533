"""The throttle pauses processing, or limits it to small batches."""

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


class Load:
    """Arrivals, time and CPU use that the test sets."""

    def __init__(self) -> None:
        self.count, self.now, self.spent = 0, 100.0, 7.0
        self.throttle = ProcessingThrottle(lambda: self.count, lambda: self.now, lambda: self.spent)
        self.throttle.worked(0.1)

    def pass_time(self, rate: float, load: float, seconds: float = 3.0) -> None:
        """Let messages arrive at a rate, and the process use CPU time, for some seconds."""
        for _ in range(round(seconds * 8)):
            self.now += 0.125
            self.spent += load * 0.125
            self.count += round(rate * 0.125)
            _ = self.throttle.is_limited  # reads the throttle

    @property
    def share(self) -> float:
        """The share of time for applying."""
        return 0.1 / (0.1 + self.throttle.pause)


def test_a_process_with_cpu_time_left_does_not_pause() -> None:
    """A process with free CPU time does not pause at any rate."""
    load_of_process = Load()
    load_of_process.pass_time(5000, load=0.6)
    assert load_of_process.share == 1


@pytest.mark.parametrize("rate", [STEADY_RATE * 2, BUSY_RATE, RUSH_RATE])
def test_batches_are_small_while_messages_arrive(rate: float) -> None:
    """Batches are small also with free CPU time. A few messages do not count."""
    load_of_process = Load()
    load_of_process.pass_time(STEADY_RATE / 2, load=0.1)
    assert not load_of_process.throttle.is_limited
    load_of_process.pass_time(rate, load=0.1)
    assert load_of_process.throttle.is_limited
    load_of_process.pass_time(0, load=0.1, seconds=QUIET_SECONDS + 0.25)
    assert not load_of_process.throttle.is_limited


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
    load_of_process = Load()
    load_of_process.pass_time(rate, load=1.0)
    assert load_of_process.share == pytest.approx(least)
    assert load_of_process.throttle.is_limited is (least < 1.0)


@pytest.mark.parametrize(
    ("rate", "share"), [(FLOOD_RATE * 0.8, 1.0), (FLOOD_RATE * 1.5, MINIMUM_SHARE[RUSH_RATE])]
)
def test_a_flood_throttles_at_a_lower_load(rate: float, share: float) -> None:
    """With free CPU time slower arrivals are applied as they arrive."""
    load_of_process = Load()
    load_of_process.pass_time(rate, load=0.9)
    assert load_of_process.share == pytest.approx(share)


def test_a_rush_ends() -> None:
    """The pauses end when arrivals stop."""
    load_of_process = Load()
    load_of_process.pass_time(RUSH_RATE * 3, load=1.0)
    load_of_process.pass_time(0, load=1.0, seconds=0.125)
    assert load_of_process.share == 1


def test_the_share_grows_again() -> None:
    """The share grows while messages still arrive, if CPU time is free."""
    load_of_process = Load()
    load_of_process.pass_time(RUSH_RATE * 3, load=1.0)
    before = load_of_process.share
    load_of_process.pass_time(RUSH_RATE * 3, load=0.5, seconds=0.5)
    assert before < load_of_process.share < 1


def test_pauses_are_bounded() -> None:
    """The pause is limited, also after a batch of a minute."""
    load_of_process = Load()
    load_of_process.pass_time(RUSH_RATE * 3, load=1.0)
    load_of_process.throttle.worked(60.0)
    assert load_of_process.throttle.pause == LONGEST_PAUSE


def test_a_process_without_listeners_never_pauses() -> None:
    quiet = unthrottled()
    quiet.worked(10.0)
    assert quiet.pause == 0
    assert not quiet.is_limited
