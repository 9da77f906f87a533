"""Work in the background pauses longer while many messages arrive."""

import pytest

from bridge.admin.background.pace import BUSY_RATE, IDLE_PAUSE, OF_INDEX, OF_JOBS, Arrivals, Pace


def arrivals(rate: float) -> Arrivals:
    found = Arrivals()
    found.measure(1000, 10.0)
    found.measure(1000 + round(rate * 100), 110.0)
    return found


def test_the_rate_is_the_difference_of_two_measurements() -> None:
    """The first one has no rate, and neither has an emptied database."""
    found = Arrivals()
    found.measure(100, 10.0)
    assert found.rate == 0
    found.measure(300, 12.0)
    assert found.rate == pytest.approx(100.0)
    found.measure(1, 14.0)
    assert found.rate == 0


@pytest.mark.parametrize("took", [0.0, 0.001, 0.05, 0.5, 10.0])
@pytest.mark.parametrize("pace", [OF_INDEX, OF_JOBS])
def test_the_share_of_time_is_small_while_many_messages_arrive(pace: Pace, took: float) -> None:
    """The index takes a fortieth of the time, jobs a twentieth; both continue."""
    wait = pace.pause(took, arrivals(BUSY_RATE))
    assert pace.shortest <= wait <= pace.longest
    assert wait >= min(pace.longest, took * pace.factor)


@pytest.mark.parametrize("pace", [OF_INDEX, OF_JOBS])
def test_it_takes_half_of_the_time_while_few_messages_arrive(pace: Pace) -> None:
    few = arrivals(BUSY_RATE - 1)
    assert pace.pause(0.2, few) == pytest.approx(0.2)
    assert pace.pause(60.0, few) == IDLE_PAUSE
