"""What a reply makes of a delivery, of the circuit, and of the destination."""

from collections import Counter
from random import Random
from typing import Any

import pytest

from bridge.delivery.destinations import CompiledDestination
from bridge.delivery.outcomes import CircuitBreaker, CircuitState, OutcomePolicy
from bridge.delivery.reply_policy import ReplyKind
from bridge.metrics import Metrics
from bridge.queue.deliveries import ClaimedDelivery
from bridge.queue.states import QueueEvent, RetryPolicy

NOW = 100_000
POLICY = RetryPolicy(first=1, maximum=8, jitter=0)


def delivery(number: int = 1, tries: int = 0) -> ClaimedDelivery:
    """A delivery whose turn it is."""
    return ClaimedDelivery(number, "ris", "R1", "k", "final", [], "ID", b"MSH|", 1, NOW, NOW, tries)


class Office:
    """An appraiser, its circuit, why it paused the destination, and what the outbox keeps."""

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

    def judge(self, said: ReplyKind, detail: str = "", number: int = 1) -> Any:
        """Give the outcome of one reply."""
        outcome = self.appraiser.after_reply(
            delivery(number, self.tries[number]), said, detail, None, NOW
        )
        self.tries[number] = outcome.tries
        return outcome


def test_pause() -> None:
    """The message stays the first to be sent, and the destination is paused for its reason."""
    office = Office(CE="retry 2 then pause")
    first, second = office.judge(ReplyKind.CE), office.judge(ReplyKind.CE)
    assert (first.event, second.event) == (QueueEvent.POSTPONED, QueueEvent.POSTPONED)
    assert office.paused == ["CE"]


def test_skip() -> None:
    """It ends as ignored, with what was said."""
    outcome = Office(AR="skip").judge(ReplyKind.AR, "200")
    assert (outcome.event, outcome.code, outcome.detail) == (QueueEvent.IGNORED, "AR", "200")


def test_each_attempt_waits_longer_and_is_forgotten_when_over() -> None:
    """Doubling from `retry_first` to `retry_max`; another delivery begins afresh."""
    office = Office()
    waits = [office.judge(ReplyKind.GARBAGE).retry_at - NOW for _ in range(5)]
    assert waits == [1000, 2000, 4000, 8000, 8000]
    assert office.judge(ReplyKind.GARBAGE, number=2).retry_at == NOW + 1000
    assert office.judge(ReplyKind.AA).tries == 0
    assert office.judge(ReplyKind.GARBAGE).retry_at == NOW + 1000


@pytest.mark.parametrize("said", [ReplyKind.AA, ReplyKind.AR, ReplyKind.GARBAGE, ReplyKind.HTTP])
def test_the_circuit(said: ReplyKind) -> None:
    """Silence opens it, any answer closes it."""
    office = Office()
    for _ in range(2):
        office.judge(ReplyKind.SILENCE, "timeout")
    assert office.breaker.circuit(NOW) is CircuitState.OPEN
    office.judge(said)
    assert office.breaker.circuit(NOW) is CircuitState.CLOSED


def test_refusals_in_a_row_are_counted() -> None:
    """From the first one until a message is accepted; what the table skips is no failure."""
    office = Office(AE="skip")
    counts = []
    for said in (ReplyKind.AR, ReplyKind.AR, ReplyKind.AA, ReplyKind.GARBAGE, ReplyKind.AE):
        office.judge(said)
        counts.append(office.breaker.refused)
    assert counts == [1, 2, 0, 1, 0]
