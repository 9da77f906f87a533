"""Batches of the status query are as large as others can bear."""

import pytest

from bridge.delivery.status_poll import MAX_BATCH, MAX_BLOCKING_SECONDS, MIN_BATCH, BatchSize


def settled(way: float, each: float, rounds: int = 200) -> list[int]:
    """Give the last sizes for a service whose answers take so long (seconds)."""
    pace = BatchSize()
    sizes = []
    for _ in range(rounds):
        sizes.append(pace.size)
        pace.record(pace.size, way + each * pace.size)
    return sizes[-10:]


@pytest.mark.parametrize("way", [0.0, 0.001, 0.05])
def test_an_answer_takes_as_long_as_others_can_bear(way: float) -> None:
    """Its making, not the way there: a distant service is asked for as many at a time."""
    sizes = settled(way, 0.00002)
    assert max(sizes) * 0.00002 == pytest.approx(MAX_BLOCKING_SECONDS, rel=0.02)


def test_a_quick_service_is_asked_for_as_many_as_may_be() -> None:
    """The interface's most; and now and then for less, to see what a report costs."""
    sizes = settled(0.001, 0.000001)
    assert max(sizes) == MAX_BATCH
    assert min(sizes) > MAX_BATCH / 2


def test_a_slow_service_is_still_asked_for_some() -> None:
    """Or a round would never end."""
    assert max(settled(0.001, 0.001)) == MIN_BATCH


def test_what_was_slow_once_recovers() -> None:
    """A moment in which the service was busy is forgotten."""
    pace = BatchSize()
    for each in [0.0005] * 50 + [0.000005] * 200:
        pace.record(pace.size, 0.001 + each * pace.size)
    assert pace.size > MAX_BATCH / 2
