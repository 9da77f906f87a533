"""The circuit breaker opens after failures, and pauses the destination."""

from random import Random

from bridge.delivery.reply_policy import CircuitBreaker, CircuitState
from bridge.queue.states import RetryPolicy

POLICY = RetryPolicy(first=1, maximum=4, jitter=0)


def breaker(after: int = 3) -> CircuitBreaker:
    """Return a circuit breaker whose pauses are 1, 2, 4, 4 … seconds."""
    return CircuitBreaker(POLICY, after, Random(1))


def test_it_opens_after_several_failures_in_a_row() -> None:
    """The breaker opens after the limit of failures. A reply restarts the count."""
    circuit = breaker()
    for _ in range(2):
        circuit.record_failure(0)
    circuit.record_reply()
    for _ in range(2):
        circuit.record_failure(0)
    assert circuit.circuit(0) is CircuitState.CLOSED
    circuit.record_failure(0)
    assert circuit.circuit(999) is CircuitState.OPEN
    assert circuit.open_until == 1000


def test_each_failed_trial_lengthens_the_pause() -> None:
    """The pause doubles up to 4 s from the start of the attempt. A reply closes the circuit."""
    circuit = breaker()
    for _ in range(3):
        circuit.record_failure(0)
    ends = []
    now = 0
    for _ in range(4):
        assert circuit.open_until is not None
        now = circuit.open_until
        assert circuit.circuit(now) is CircuitState.TRYING
        ends.append(now)
        circuit.record_failure(now)
    assert ends == [1000, 3000, 7000, 11000]
    circuit.record_reply()
    assert circuit.circuit(now) is CircuitState.CLOSED


def test_a_long_attempt_counts_as_pause() -> None:
    """After an attempt longer than the pause the next one starts at once."""
    circuit = breaker(1)
    circuit.record_failure(0)
    assert circuit.circuit(5000) is CircuitState.TRYING


def test_it_can_be_switched_off() -> None:
    """With a limit of 0 the breaker never opens."""
    circuit = breaker(0)
    for _ in range(100):
        circuit.record_failure(0)
    assert circuit.circuit(0) is CircuitState.CLOSED


def test_a_clock_that_is_set_back_makes_no_pause_longer() -> None:
    """After the clock is set back an hour, the pause is 4 seconds at most."""
    circuit = breaker(1)
    circuit.record_failure(3_600_000)
    assert circuit.circuit(1000) is CircuitState.OPEN
    assert circuit.open_until == 5000
    assert circuit.circuit(5000) is CircuitState.TRYING
