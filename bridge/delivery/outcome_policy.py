"""
Outcomes of delivery attempts, and the circuit breaker of a destination. No I/O.

The circuit breaker opens after several attempts in a row without a reply. While it is open, the
courier sends nothing. After a pause it sends one message as a trial. Each further failure
lengthens the pause. Any reply closes the circuit.
"""

from collections.abc import Callable
from enum import StrEnum
from random import Random

from bridge.delivery.destinations import CompiledDestination
from bridge.delivery.errors import CompositionError, NothingToSend
from bridge.delivery.reply_policy import ReplyKind, decide
from bridge.errors import FailureKind
from bridge.metrics import Metrics
from bridge.queue.deliveries import ClaimedDelivery, DeliveryOutcome
from bridge.queue.states import QueueEvent, RetryPolicy

_NOT_ACCEPTED = frozenset({QueueEvent.POSTPONED, QueueEvent.GIVEN_UP})


class CircuitState(StrEnum):
    """The state of a circuit breaker."""

    CLOSED = "closed"
    OPEN = "open"
    TRYING = "trying"  # half-open: the pause is over, one message is sent as a trial


class CircuitBreaker:
    """The circuit breaker of one destination; times in milliseconds."""

    def __init__(self, policy: RetryPolicy, after: int, random: Random) -> None:
        """Open the circuit after `after` failures in a row; 0 means never."""
        self._policy = policy
        self._after = after
        self._random = random
        self._failures = 0
        self._until = 0
        self.replies = 0
        """Replies since the start."""
        self.refused = 0
        """Refusals since the last accepted message."""

    @property
    def open_until(self) -> int | None:
        """The end of the pause; None if the circuit is closed."""
        return self._until or None

    def record_failure(self, began: int) -> None:
        """Count an attempt, started at `began`, that got no reply."""
        self._failures += 1
        beyond = self._failures - self._after
        if self._after and beyond >= 0:
            pause = self._policy.delay(beyond + 1, self._random)
            self._until = began + round(pause * 1000)

    def record_reply(self, *, refused: bool = False) -> None:
        """Close the circuit; a refusal is a reply, too."""
        self.replies += 1
        self.refused = self.refused + 1 if refused else 0
        self._failures = self._until = 0

    def circuit(self, now: int) -> CircuitState:
        """Return the state at a time."""
        if not self._until:
            return CircuitState.CLOSED
        # If the pause seems longer than the maximum, the clock was set back.
        self._until = min(self._until, now + round(self._policy.maximum * 1000))
        return CircuitState.OPEN if now < self._until else CircuitState.TRYING

    def wait(self, now: int) -> float:
        """Return the seconds until the next message may be sent."""
        return max(0, self._until - now) / 1000


class OutcomePolicy:
    """Turns replies and failures into outcomes for one destination; `clock` is in milliseconds."""

    def __init__(
        self,
        destination: CompiledDestination,
        breaker: CircuitBreaker,
        metrics: Metrics,
        clock: Callable[[], int],
        random: Random,
        *,
        on_pause: Callable[[str], object],
    ) -> None:
        """`on_pause` is called with the reply for which the reply policy pauses the destination."""
        self._destination = destination
        self._breaker = breaker
        self._metrics = metrics
        self._clock = clock
        self._random = random
        self._on_pause = on_pause

    def after_reply(
        self, delivery: ClaimedDelivery, kind: ReplyKind, detail: str, reply: bytes | None, at: int
    ) -> DeliveryOutcome:
        """Return the outcome after a reply to a message that was sent at `at`."""
        tries = delivery.tries + 1
        follows = decide(kind, self._destination.replies, tries, detail)
        if kind is ReplyKind.SILENCE:
            self._breaker.record_failure(at)
        else:
            self._breaker.record_reply(refused=follows.event in _NOT_ACCEPTED or follows.pause)
        if follows.pause:
            self._on_pause(kind.value)
        again = follows.event is QueueEvent.POSTPONED
        self._count(delivery, kind, follows.event)
        return DeliveryOutcome(
            delivery.delivery_id,
            follows.event,
            follows.failure,
            kind.value,
            detail,
            self._clock() + self._delay(tries) if again else None,
            reply,
            at,
            tries if again else 0,
        )

    def _count(self, delivery: ClaimedDelivery, kind: ReplyKind, event: QueueEvent) -> None:
        name = self._destination.name
        self._metrics.deliveries.labels(name, kind.value, event.value).inc()
        if event is QueueEvent.ACCEPTED:
            seconds = max(0, self._clock() - delivery.release_at) / 1000
            self._metrics.delivery_seconds.labels(name).observe(seconds)

    def after_composition_failure(
        self, delivery: ClaimedDelivery, failure: FailureKind, code: str, after: float | None
    ) -> DeliveryOutcome:
        """Return the outcome of a message that could not be composed; `after` is in seconds."""
        if failure is FailureKind.PERMANENT:
            return give_up(delivery, code)
        tries = delivery.tries + 1
        wait = self._delay(tries) if after is None else round(after * 1000)
        return DeliveryOutcome(
            delivery.delivery_id,
            QueueEvent.POSTPONED,
            failure,
            code,
            "not composed yet",
            self._clock() + wait,
            tries=tries,
        )

    def _delay(self, tries: int) -> int:
        return round(self._destination.retry.delay(tries, self._random) * 1000)


def give_up(delivery: ClaimedDelivery, code: str, why: str = "") -> DeliveryOutcome:
    """Return the outcome that parks a delivery; `why` is a text without values of a message."""
    return DeliveryOutcome(
        delivery.delivery_id, QueueEvent.GIVEN_UP, FailureKind.PERMANENT, code, why
    )


def outcome_without_message(delivery: ClaimedDelivery, error: CompositionError) -> DeliveryOutcome:
    """Return the outcome of an error: ignored if there is nothing to send, else parked."""
    if isinstance(error, NothingToSend):
        return DeliveryOutcome(delivery.delivery_id, QueueEvent.IGNORED, code=error.code)
    return give_up(delivery, error.code, str(error))
