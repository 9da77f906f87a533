"""Cost and memory of quotas; `test_edge_rules.py` tests the windows."""

import time

import pytest

from bridge.engine.http.requests.request_limits import QuotaMeter, monotonic_ms
from bridge.engine.settings import Quota
from tests.bridge.engine.http.engine_service import Clock
from tests.calls import counted

QUOTA = Quota(2, 60)


def calls(meter: QuotaMeter, key: str) -> int:
    return counted(lambda: meter.take("reads", key, QUOTA))[1]


@pytest.mark.parametrize("passes", [0, 61])
def test_the_cost_does_not_depend_on_the_number_of_windows(passes: int) -> None:
    """For a new and a known caller, during the windows and after their end."""
    costs = []
    for count in (10, 100_000):
        clock = Clock()
        meter = QuotaMeter(clock)
        for each in range(count):
            meter.take("reads", str(each), QUOTA)
        clock.pass_seconds(passes)
        costs.append((calls(meter, "new"), calls(meter, "new"), calls(meter, str(count - 1))))
    assert costs[0] == costs[1]


def test_expired_windows_are_dropped() -> None:
    clock = Clock()
    meter = QuotaMeter(clock)
    for round_number in range(10):
        for each in range(1000):
            meter.take("reads", f"{round_number} {each}", QUOTA)
        clock.pass_seconds(61)
    assert len(meter) <= 1001


def test_the_number_of_windows_is_limited() -> None:
    """The oldest window is dropped for a new one; other policies are unaffected."""
    meter = QuotaMeter(Clock(), max_windows=100)
    meter.take("exports", "1", QUOTA)
    for each in range(1000):
        meter.take("reads", str(each), QUOTA)
    assert len(meter) <= 101
    again = meter.take("exports", "1", QUOTA)
    assert again is not None
    assert again.remaining == 0


def test_a_change_of_the_wall_clock_moves_no_window(monkeypatch: pytest.MonkeyPatch) -> None:
    meter = QuotaMeter()
    first = meter.take("reads", "1", QUOTA)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    second = meter.take("reads", "1", QUOTA)
    assert first is not None
    assert second is not None
    assert (first.remaining, second.remaining) == (1, 0)
    assert monotonic_ms() > 0
