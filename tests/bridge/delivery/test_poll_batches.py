"""The batch size of the status poll adapts to the response times of the service."""

import pytest

from bridge.delivery.status_poll import MAX_BATCH, MAX_BLOCKING_SECONDS, MIN_BATCH, BatchSize


def last_sizes(way: float, each: float, rounds: int = 200) -> list[int]:
    """Return the last batch sizes for a service with these response times (seconds)."""
    pace = BatchSize()
    sizes = []
    for _ in range(rounds):
        sizes.append(pace.size)
        pace.record(pace.size, way + each * pace.size)
    return sizes[-10:]


@pytest.mark.parametrize("way", [0.0, 0.001, 0.05])
def test_the_work_of_the_service_is_limited(way: float) -> None:
    """Only the work of the service counts, not the round trip."""
    sizes = last_sizes(way, 0.00002)
    assert max(sizes) * 0.00002 == pytest.approx(MAX_BLOCKING_SECONDS, rel=0.02)


def test_a_fast_service_gets_the_largest_batches() -> None:
    """The size is the maximum, and sometimes less to measure the time per report."""
    sizes = last_sizes(0.001, 0.000001)
    assert max(sizes) == MAX_BATCH
    assert min(sizes) > MAX_BATCH / 2


def test_a_slow_service_gets_the_smallest_batches() -> None:
    """A lower bound lets a round end."""
    assert max(last_sizes(0.001, 0.001)) == MIN_BATCH


def test_one_slow_response_is_forgotten() -> None:
    """One slow response has no lasting effect."""
    pace = BatchSize()
    for each in [0.0005] * 50 + [0.000005] * 200:
        pace.record(pace.size, 0.001 + each * pace.size)
    assert pace.size > MAX_BATCH / 2
