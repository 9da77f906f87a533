"""When a destination is left alone."""

from random import Random

from bridge.delivery.outcomes import CircuitBreaker, CircuitState
from bridge.queue.states import RetryPolicy

POLICY = RetryPolicy(first=1, maximum=4, jitter=0)


def breaker(after: int = 3) -> CircuitBreaker:
    """A circuit whose pauses are 1, 2, 4, 4 … seconds."""
    return CircuitBreaker(POLICY, after, Random(1))


def test_it_opens_after_so_many_failures_in_a_row() -> None:
    """Not before, and not when an answer came in between."""
    circuit = breaker()
    for _ in range(2):
        circuit.record_failure(0)
    circuit.record_reply()
    for _ in range(2):
        circuit.record_failure(0)
    assert circuit.circuit(0) is CircuitState.CLOSED
    circuit.record_failure(0)
    assert circuit.circuit(999) is CircuitState.OPEN
    assert circuit.wait(250) == 0.75


def test_one_may_try_and_each_failure_lengthens_the_pause() -> None:
    """1, 2, 4, 4 seconds from the beginning of the attempt; an answer closes it."""
    circuit = breaker()
    for _ in range(3):
        circuit.record_failure(0)
    ends = []
    now = 0
    for _ in range(4):
        now += round(circuit.wait(now) * 1000)
        assert circuit.circuit(now) is CircuitState.TRYING
        ends.append(now)
        circuit.record_failure(now)
    assert ends == [1000, 3000, 7000, 11000]
    circuit.record_reply()
    assert circuit.circuit(now) is CircuitState.CLOSED


def test_a_long_attempt_was_pause_enough() -> None:
    """A client that waited by itself is not made to wait twice."""
    circuit = breaker(1)
    circuit.record_failure(0)
    assert circuit.circuit(5000) is CircuitState.TRYING


def test_it_can_be_switched_off() -> None:
    """0 failures: never."""
    circuit = breaker(0)
    for _ in range(100):
        circuit.record_failure(0)
    assert circuit.circuit(0) is CircuitState.CLOSED


def test_a_clock_that_is_set_back_makes_no_pause_longer() -> None:
    """An hour back: 4 seconds at most, which pass."""
    circuit = breaker(1)
    circuit.record_failure(3_600_000)
    assert circuit.circuit(1000) is CircuitState.OPEN
    assert circuit.wait(1000) == 4
    assert circuit.circuit(5000) is CircuitState.TRYING
