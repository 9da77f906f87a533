"""How fast many are queued again."""

from bridge.admin.selection import requeue_each
from bridge.errors import BridgeError


class Time:
    """A clock that goes on only while somebody works or sleeps."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def passes(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


def test_a_rate_is_what_it_says_however_long_each_takes() -> None:
    """Those that are to begin too early wait; who begins late has nobody hurry."""
    time = Time()
    begun: list[float] = []
    takes = iter([0.2, 0.2, 1.0, 0.1, 0.0])

    def again(row_id: int) -> None:
        begun.append(round(time.now - 100, 6))
        time.passes(next(takes))
        if row_id == 4:
            raise BridgeError("in somebody's hands")

    done = list(requeue_each([1, 2, 3, 4, 5], again, 4, time.passes, time))

    assert begun == [0.0, 0.25, 0.5, 1.5, 1.75]
    assert [each.error for each in done] == ["", "", "", "in somebody's hands", ""]


def test_without_a_rate_nobody_sleeps() -> None:
    """As fast as it goes."""
    time = Time()
    assert len(list(requeue_each([1, 2, 3], lambda _: None, 0, time.passes, time))) == 3
    assert time.now == 100
