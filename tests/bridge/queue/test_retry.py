"""Delays double up to the maximum, with jitter."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.queue.states import RetryPolicy


def test_delays_double_up_to_the_maximum() -> None:
    """Without jitter the delays are the powers of two, then the maximum."""
    policy = RetryPolicy(first=1, maximum=10, jitter=0)
    assert [policy.delay(n, Random(0)) for n in range(1, 7)] == [1, 2, 4, 8, 10, 10]


@given(st.integers(-5, 10**9), st.integers())
def test_any_attempt_has_a_delay_within_bounds(attempt: int, seed: int) -> None:
    """Each attempt waits longer than 0 and at most the maximum."""
    policy = RetryPolicy(first=0.5, maximum=60, jitter=0.5)
    assert 0.25 <= policy.delay(attempt, Random(seed)) <= 60


def test_jitter_spreads() -> None:
    """Messages that failed together are not retried together."""
    random = Random(1)
    assert len({RetryPolicy().delay(5, random) for _ in range(20)}) == 20


@pytest.mark.parametrize("wrong", [(0, 1, 0.1), (2, 1, 0.1), (1, 2, 1.1), (1, 2, -0.1)])
def test_an_invalid_policy_is_refused(wrong: tuple[float, float, float]) -> None:
    """A policy with impossible delays is refused."""
    with pytest.raises(ValueError, match="first"):
        RetryPolicy(*wrong)
