"""The rate of a bulk action."""

from math import inf

from bridge.admin.background.actions import RowRate


class ManualClock:
    """A clock that advances only when the test works or sleeps."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def passes(self, seconds: float) -> None:
        self.now += seconds


def test_rate() -> None:
    """Each row waits for its time. A late one does not speed up the next."""
    time = ManualClock()
    rate = RowRate(4, time.passes, time)
    begun: list[float] = []
    for takes in (0.2, 0.2, 1.0, 0.1, 0.0):
        assert rate.wait(inf)
        begun.append(round(time.now - 100, 6))
        rate.begin()
        time.passes(takes)
    assert begun == [0.0, 0.25, 0.5, 1.5, 1.75]


def test_a_slice_ends_before_a_row_that_is_due_later() -> None:
    time = ManualClock()
    rate = RowRate(2, time.passes, time)
    rate.begin()
    assert not rate.wait(time.now + 0.1)
    assert round(time.now, 6) == 100.1
    assert rate.wait(inf)
    assert round(time.now, 6) == 100.5


def test_no_rate() -> None:
    time = ManualClock()
    rate = RowRate(0, time.passes, time)
    for _ in range(3):
        assert rate.wait(inf)
        rate.begin()
    assert time.now == 100
