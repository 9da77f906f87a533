"""
Appraisal of attempts to deliver: the outcome of a reply, and the circuit breaker of a destination.

The breaker opens after a few attempts in a row that nobody answered. Then nothing is sent until a
pause is over, one message alone is tried, and each further failure lengthens the pause. A reply of
any kind closes it. No I/O.
"""

from collections.abc import Callable
from enum import StrEnum
from random import Random

from bridge.delivery.destinations import Destination
from bridge.delivery.errors import CompositionError, NothingOwed
from bridge.delivery.replies import Reply, consequence
from bridge.errors import FailureKind
from bridge.metrics import Metrics
from bridge.queue.deliveries import ClaimedDelivery, DeliveryOutcome
from bridge.queue.states import QueueEvent, RetryPolicy

_NOT_ACCEPTED = frozenset({QueueEvent.POSTPONED, QueueEvent.GIVEN_UP})


class Circuit(StrEnum):
    """Where a destination's circuit stands."""

    CLOSED = "closed"
    OPEN = "open"
    TRYING = "trying"  # the pause is over: one message may try


class Breaker:
    """The circuit of one destination; times in milliseconds."""

    def __init__(self, policy: RetryPolicy, after: int, random: Random) -> None:
        """Open after so many failures in a row; 0: never."""
        self._policy = policy
        self._after = after
        self._random = random
        self._failures = 0
        self._until = 0
        self.replies = 0
        """How many attempts were answered in all."""
        self.refused = 0
        """How many messages in a row were refused."""

    @property
    def open_until(self) -> int | None:
        """When the pause ends; None where the circuit is closed."""
        return self._until or None

    def failed(self, began: int) -> None:
        """Count an attempt, begun then, that nobody answered."""
        self._failures += 1
        beyond = self._failures - self._after
        if self._after and beyond >= 0:
            pause = self._policy.delay(beyond + 1, self._random)
            self._until = began + round(pause * 1000)

    def answered(self, *, refused: bool = False) -> None:
        """Close the circuit; a refusal is an answer too."""
        self.replies += 1
        self.refused = self.refused + 1 if refused else 0
        self._failures = self._until = 0

    def circuit(self, now: int) -> Circuit:
        """Tell where it stands."""
        if not self._until:
            return Circuit.CLOSED
        # No pause is longer: if it seems to be, the clock was set back since.
        self._until = min(self._until, now + round(self._policy.maximum * 1000))
        return Circuit.OPEN if now < self._until else Circuit.TRYING

    def wait(self, now: int) -> float:
        """Give the seconds until something may be sent."""
        return max(0, self._until - now) / 1000


class Appraiser:
    """Judges the attempts of one destination; `clock` is in milliseconds."""

    def __init__(
        self,
        destination: Destination,
        breaker: Breaker,
        metrics: Metrics,
        *,
        clock: Callable[[], int],
        random: Random,
        on_pause: Callable[[str], object],
    ) -> None:
        """`on_pause` is told the reply for which the table pauses the destination."""
        self._destination = destination
        self._breaker = breaker
        self._metrics = metrics
        self._clock = clock
        self._random = random
        self._on_pause = on_pause

    def judged(
        self, delivery: ClaimedDelivery, said: Reply, detail: str, reply: bytes | None, at: int
    ) -> DeliveryOutcome:
        """Look up what follows a reply to what was sent at `at`."""
        tries = delivery.tries + 1
        follows = consequence(said, self._destination.replies, tries, detail)
        if said is Reply.SILENCE:
            self._breaker.failed(at)
        else:
            self._breaker.answered(refused=follows.event in _NOT_ACCEPTED or follows.pause)
        if follows.pause:
            self._on_pause(said.value)
        again = follows.event is QueueEvent.POSTPONED
        self._count(delivery, said, follows.event)
        return DeliveryOutcome(
            delivery.delivery_id,
            follows.event,
            follows.failure,
            said.value,
            detail,
            self._clock() + self._delay(tries) if again else None,
            reply,
            at,
            tries if again else 0,
        )

    def _count(self, delivery: ClaimedDelivery, said: Reply, event: QueueEvent) -> None:
        name = self._destination.name
        self._metrics.deliveries.labels(name, said.value, event.value).inc()
        if event is QueueEvent.ACCEPTED:
            seconds = max(0, self._clock() - delivery.release_at) / 1000
            self._metrics.delivery_seconds.labels(name).observe(seconds)

    def postponed(
        self, delivery: ClaimedDelivery, failure: FailureKind, code: str, after: float | None
    ) -> DeliveryOutcome:
        """Give what follows when a message could not be composed yet."""
        if failure is FailureKind.PERMANENT:
            return given_up(delivery, code)
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


def given_up(delivery: ClaimedDelivery, code: str, why: str = "") -> DeliveryOutcome:
    """Give the outcome that leaves a delivery to a person; `why` in words without values."""
    return DeliveryOutcome(
        delivery.delivery_id, QueueEvent.GIVEN_UP, FailureKind.PERMANENT, code, why
    )


def not_composed(delivery: ClaimedDelivery, error: CompositionError) -> DeliveryOutcome:
    """Say what comes of a message that cannot be: nothing was owed, or a person must look."""
    if isinstance(error, NothingOwed):
        return DeliveryOutcome(delivery.delivery_id, QueueEvent.IGNORED, code=error.code)
    return given_up(delivery, error.code, str(error))
