"""A second process is wanted where much is applied by one that has no time left, and only there."""

import pytest

from bridge.queue.pressure import BUSY, FEW, LONG, MANY, Pressure


class Day:
    """A timer and a processor that are moved by hand."""

    def __init__(self) -> None:
        self.now, self.spent = 100.0, 7.0
        self.pressure = Pressure(lambda: self.now, lambda: self.spent)

    def goes_by(self, rate: float, load: float, seconds: float = 3.0) -> None:
        """Let batches be applied, ten a second, by a process that is so busy."""
        for _ in range(round(seconds * 10)):
            self.now += 0.1
            self.spent += load * 0.1
            self.pressure.applied(round(rate / 10))


@pytest.mark.parametrize(
    ("rate", "load", "pressed"),
    [
        (MANY * 2, BUSY + 0.1, True),
        (MANY * 2, BUSY - 0.1, False),
        (MANY / 2, 1.0, False),
    ],
)
def test_many_and_no_time_left(rate: float, load: float, *, pressed: bool) -> None:
    """Both: few orders that keep it busy, or many that do not, are for one process."""
    day = Day()
    day.goes_by(rate, load)
    assert day.pressure.pressed is pressed


def test_a_moment_is_not_enough() -> None:
    """A hundred orders at once are no reason to start a process."""
    day = Day()
    day.goes_by(MANY * 2, 1.0, seconds=0.8)
    assert not day.pressure.pressed
    day.goes_by(0, 0.1, seconds=1.0)
    day.goes_by(MANY * 2, 1.0, seconds=0.5)
    assert not day.pressure.pressed


def test_it_eases_when_there_was_little_for_long() -> None:
    """And not between two rushes."""
    day = Day()
    day.goes_by(MANY * 2, 1.0)
    day.goes_by(FEW / 2, 0.5, seconds=LONG - 1)
    assert not day.pressure.eased
    day.goes_by(MANY, 0.5, seconds=1.0)
    day.goes_by(FEW / 2, 0.5, seconds=LONG - 1)
    assert not day.pressure.eased
    day.now += 2.0  # nothing at all is little
    assert day.pressure.eased
