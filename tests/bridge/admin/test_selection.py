"""The rate at which messages are queued again."""

from bridge.admin.message_replay import requeue_each
from bridge.errors import BridgeError


class ManualClock:
    """A clock that advances only when the test works or sleeps."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def passes(self, seconds: float) -> None:
        self.now += seconds


def test_rate() -> None:
    """Each message waits for its time. A late one does not speed up the next."""
    time = ManualClock()
    begun: list[float] = []
    takes = iter([0.2, 0.2, 1.0, 0.1, 0.0])

    def again(row_id: int) -> None:
        begun.append(round(time.now - 100, 6))
        time.passes(next(takes))
        if row_id == 4:
            raise BridgeError("in somebody's hands")

    done = list(requeue_each([1, 2, 3, 4, 5], again, 4, time.passes, time))

    assert begun == [0.0, 0.25, 0.5, 1.5, 1.75]
    assert [result.error for result in done] == ["", "", "", "in somebody's hands", ""]


def test_no_rate() -> None:
    time = ManualClock()
    assert len(list(requeue_each([1, 2, 3], lambda _: None, 0, time.passes, time))) == 3
    assert time.now == 100
