"""
What came of an attempt to deliver, as the outcome that the queue is told.

Looks the reply up in the destination's table, minds the circuit. Sends nothing, keeps nothing.
"""

from collections.abc import Callable
from random import Random

from bridge.delivery.breaker import Breaker
from bridge.delivery.destinations import Destination
from bridge.delivery.errors import CompositionError, NothingOwed
from bridge.delivery.replies import Reply, consequence
from bridge.observability.metrics import Metrics
from bridge.queue.deliveries import ClaimedDelivery, DeliveryOutcome
from bridge.queue.states import Event, Failure

_NOT_ACCEPTED = frozenset({Event.POSTPONED, Event.GIVEN_UP})


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
        again = follows.event is Event.POSTPONED
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

    def _count(self, delivery: ClaimedDelivery, said: Reply, event: Event) -> None:
        name = self._destination.name
        self._metrics.deliveries.labels(name, said.value, event.value).inc()
        if event is Event.ACCEPTED:
            seconds = max(0, self._clock() - delivery.release_at) / 1000
            self._metrics.delivery_seconds.labels(name).observe(seconds)

    def postponed(
        self, delivery: ClaimedDelivery, failure: Failure, code: str, after: float | None
    ) -> DeliveryOutcome:
        """Give what follows when a message could not be composed yet."""
        if failure is Failure.PERMANENT:
            return given_up(delivery, code)
        tries = delivery.tries + 1
        wait = self._delay(tries) if after is None else round(after * 1000)
        return DeliveryOutcome(
            delivery.delivery_id,
            Event.POSTPONED,
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
    return DeliveryOutcome(delivery.delivery_id, Event.GIVEN_UP, Failure.PERMANENT, code, why)


def not_composed(delivery: ClaimedDelivery, error: CompositionError) -> DeliveryOutcome:
    """Say what comes of a message that cannot be: nothing was owed, or a person must look."""
    if isinstance(error, NothingOwed):
        return DeliveryOutcome(delivery.delivery_id, Event.IGNORED, code=error.code)
    return given_up(delivery, error.code, str(error))
