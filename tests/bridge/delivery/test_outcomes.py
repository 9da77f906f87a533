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
    """Return a claimed delivery."""
    return ClaimedDelivery(number, "ris", "R1", "k", "final", [], "ID", b"MSH|", 1, NOW, NOW, tries)


class PolicyBench:
    """An outcome policy with its circuit breaker, pause reasons and stored outcomes."""

    def __init__(self, **replies: str) -> None:
        destination = CompiledDestination("ris", (), replies=replies, retry=POLICY)
        self.paused: list[str] = []
        self.tries: Counter[int] = Counter()
        self.breaker = CircuitBreaker(POLICY, 2, Random(1))
        self.appraiser = OutcomePolicy(
            destination,
            self.breaker,
            Metrics(),
            clock=lambda: NOW,
            random=Random(1),
            on_pause=self.paused.append,
        )

    def outcome_of(self, said: ReplyKind, detail: str = "", number: int = 1) -> Any:
        """Return the outcome of one reply."""
        outcome = self.appraiser.after_reply(
            delivery(number, self.tries[number]), said, detail, None, NOW
        )
        self.tries[number] = outcome.tries
        return outcome


def test_pause() -> None:
    """The message stays first in line, and the destination is paused with the reason."""
    office = PolicyBench(CE="retry 2 then pause")
    first, second = office.outcome_of(ReplyKind.CE), office.outcome_of(ReplyKind.CE)
    assert (first.event, second.event) == (QueueEvent.POSTPONED, QueueEvent.POSTPONED)
    assert office.paused == ["CE"]


def test_skip() -> None:
    """The delivery ends as ignored, with the reply as its code."""
    outcome = PolicyBench(AR="skip").outcome_of(ReplyKind.AR, "200")
    assert (outcome.event, outcome.code, outcome.detail) == (QueueEvent.IGNORED, "AR", "200")


def test_retries_back_off() -> None:
    """The wait doubles from `retry_first` to `retry_max`; another delivery starts anew."""
    office = PolicyBench()
    waits = [office.outcome_of(ReplyKind.GARBAGE).retry_at - NOW for _ in range(5)]
    assert waits == [1000, 2000, 4000, 8000, 8000]
    assert office.outcome_of(ReplyKind.GARBAGE, number=2).retry_at == NOW + 1000
    assert office.outcome_of(ReplyKind.AA).tries == 0
    assert office.outcome_of(ReplyKind.GARBAGE).retry_at == NOW + 1000


@pytest.mark.parametrize("said", [ReplyKind.AA, ReplyKind.AR, ReplyKind.GARBAGE, ReplyKind.HTTP])
def test_the_circuit(said: ReplyKind) -> None:
    """Silence opens the circuit, any reply closes it."""
    office = PolicyBench()
    for _ in range(2):
        office.outcome_of(ReplyKind.SILENCE, "timeout")
    assert office.breaker.circuit(NOW) is CircuitState.OPEN
    office.outcome_of(said)
    assert office.breaker.circuit(NOW) is CircuitState.CLOSED


def test_a_message_without_replies_is_not_the_next_trial() -> None:
    """When the pause ends, another message is sent: one that gets no reply starves no others."""
    office = PolicyBench()
    office.outcome_of(ReplyKind.SILENCE, "timeout", number=1)
    outcome = office.outcome_of(ReplyKind.SILENCE, "timeout", number=2)
    until = office.breaker.open_until
    assert until is not None
    assert outcome.retry_at > until
    assert office.breaker.circuit(until) is CircuitState.TRYING


def test_refusals_in_a_row_are_counted() -> None:
    """The count restarts after an accepted message; skipped replies are no refusals."""
    office = PolicyBench(AE="skip")
    counts = []
    for said in (ReplyKind.AR, ReplyKind.AR, ReplyKind.AA, ReplyKind.GARBAGE, ReplyKind.AE):
        office.outcome_of(said)
        counts.append(office.breaker.refused)
    assert counts == [1, 2, 0, 1, 0]
