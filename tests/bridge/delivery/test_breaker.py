"""When a destination is left alone."""

from random import Random

from bridge.delivery.appraisal import Breaker, Circuit
from bridge.queue.states import RetryPolicy

POLICY = RetryPolicy(first=1, maximum=4, jitter=0)


def breaker(after: int = 3) -> Breaker:
    """A circuit whose pauses are 1, 2, 4, 4 … seconds."""
    return Breaker(POLICY, after, Random(1))


def test_it_opens_after_so_many_failures_in_a_row() -> None:
    """Not before, and not when an answer came in between."""
    circuit = breaker()
    for _ in range(2):
        circuit.failed(0)
    circuit.answered()
    for _ in range(2):
        circuit.failed(0)
    assert circuit.circuit(0) is Circuit.CLOSED
    circuit.failed(0)
    assert circuit.circuit(999) is Circuit.OPEN
    assert circuit.wait(250) == 0.75


def test_one_may_try_and_each_failure_lengthens_the_pause() -> None:
    """1, 2, 4, 4 seconds from the beginning of the attempt; an answer closes it."""
    circuit = breaker()
    for _ in range(3):
        circuit.failed(0)
    ends = []
    now = 0
    for _ in range(4):
        now += round(circuit.wait(now) * 1000)
        assert circuit.circuit(now) is Circuit.TRYING
        ends.append(now)
        circuit.failed(now)
    assert ends == [1000, 3000, 7000, 11000]
    circuit.answered()
    assert circuit.circuit(now) is Circuit.CLOSED


def test_a_long_attempt_was_pause_enough() -> None:
    """A client that waited by itself is not made to wait twice."""
    circuit = breaker(1)
    circuit.failed(0)
    assert circuit.circuit(5000) is Circuit.TRYING


def test_it_can_be_switched_off() -> None:
    """0 failures: never."""
    circuit = breaker(0)
    for _ in range(100):
        circuit.failed(0)
    assert circuit.circuit(0) is Circuit.CLOSED


def test_a_clock_that_is_set_back_makes_no_pause_longer() -> None:
    """An hour back: 4 seconds at most, which pass."""
    circuit = breaker(1)
    circuit.failed(3_600_000)
    assert circuit.circuit(1000) is Circuit.OPEN
    assert circuit.wait(1000) == 4
    assert circuit.circuit(5000) is Circuit.TRYING
