"""The outcome after a reply: state of the delivery, circuit breaker, pause of the destination."""

from collections import Counter
from random import Random
from typing import Any

import pytest

from bridge.delivery.destinations import CompiledDestination
from bridge.delivery.reply_policy import CircuitBreaker, CircuitState, OutcomePolicy, ReplyKind
from bridge.metrics import Metrics
from bridge.queue.deliveries import ClaimedDelivery
from bridge.queue.states import QueueEvent, RetryPolicy

NOW = 100_000
POLICY = RetryPolicy(first=1, maximum=8, jitter=0)


def delivery(number: int = 1, tries: int = 0) -> ClaimedDelivery:
    return ClaimedDelivery(number, "ris", "R1", "k", "final", [], "ID", b"MSH|", 1, NOW, NOW, tries)


class OutcomeHarness:
    def __init__(self, **replies: str) -> None:
        destination = CompiledDestination("ris", (), replies=replies, retry=POLICY)
        self.paused: list[str] = []
        self.tries: Counter[int] = Counter()
        self.breaker = CircuitBreaker(POLICY, 2, Random(1))
        self.policy = OutcomePolicy(
            destination,
            self.breaker,
            Metrics(),
            clock=lambda: NOW,
            random=Random(1),
            on_pause=self.paused.append,
        )

    def outcome_of(self, kind: ReplyKind, detail: str = "", number: int = 1) -> Any:
        outcome = self.policy.after_reply(
            delivery(number, self.tries[number]), kind, detail, None, NOW
        )
        self.tries[number] = outcome.tries
        return outcome


def test_pause() -> None:
    """The message stays first in line, and the destination is paused with the reason."""
    harness = OutcomeHarness(CE="retry 2 then pause")
    first, second = harness.outcome_of(ReplyKind.CE), harness.outcome_of(ReplyKind.CE)
    assert (first.event, second.event) == (QueueEvent.POSTPONED, QueueEvent.POSTPONED)
    assert harness.paused == ["CE"]


def test_skip() -> None:
    """The delivery ends as ignored, with the reply as its code."""
    outcome = OutcomeHarness(AR="skip").outcome_of(ReplyKind.AR, "200")
    assert (outcome.event, outcome.code, outcome.detail) == (QueueEvent.IGNORED, "AR", "200")


def test_retries_back_off() -> None:
    """The wait of a delivery doubles from `retry_first` to `retry_max`."""
    harness = OutcomeHarness()
    waits = [harness.outcome_of(ReplyKind.GARBAGE).retry_at - NOW for _ in range(5)]
    assert waits == [1000, 2000, 4000, 8000, 8000]
    assert harness.outcome_of(ReplyKind.GARBAGE, number=2).retry_at == NOW + 1000
    assert harness.outcome_of(ReplyKind.AA).tries == 0
    assert harness.outcome_of(ReplyKind.GARBAGE).retry_at == NOW + 1000


@pytest.mark.parametrize("kind", [ReplyKind.AA, ReplyKind.AR, ReplyKind.GARBAGE, ReplyKind.HTTP])
def test_the_circuit(kind: ReplyKind) -> None:
    """Silence opens the circuit, a reply closes it."""
    harness = OutcomeHarness()
    for _ in range(2):
        harness.outcome_of(ReplyKind.SILENCE, "timeout")
    assert harness.breaker.circuit(NOW) is CircuitState.OPEN
    harness.outcome_of(kind)
    assert harness.breaker.circuit(NOW) is CircuitState.CLOSED


def test_a_message_without_replies_is_not_the_next_trial() -> None:
    """After the pause another message is sent: a message without replies blocks no others."""
    harness = OutcomeHarness()
    harness.outcome_of(ReplyKind.SILENCE, "timeout", number=1)
    outcome = harness.outcome_of(ReplyKind.SILENCE, "timeout", number=2)
    until = harness.breaker.open_until
    assert until is not None
    assert outcome.retry_at > until
    assert harness.breaker.circuit(until) is CircuitState.TRYING


def test_refusals_in_a_row_are_counted() -> None:
    """The count restarts after an accepted message; skipped replies are no refusals."""
    harness = OutcomeHarness(AE="skip")
    counts = []
    for kind in (ReplyKind.AR, ReplyKind.AR, ReplyKind.AA, ReplyKind.GARBAGE, ReplyKind.AE):
        harness.outcome_of(kind)
        counts.append(harness.breaker.refused)
    assert counts == [1, 2, 0, 1, 0]
