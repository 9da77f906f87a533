"""
One destination's courier: claims what is due, composes it once, sends it, writes down the reply.

One message in flight. What becomes of a reply is `replies`' table. A destination that cannot
be reached holds up itself only; a result that is refused holds up its own report only.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Protocol

import structlog
from twisted.internet.defer import Deferred

from bridge.delivery.appraisal import Appraiser, given_up
from bridge.delivery.breaker import Breaker, Circuit
from bridge.delivery.composer import Composer
from bridge.delivery.destinations import Destination
from bridge.delivery.replies import LOST, Reply, read_reply
from bridge.delivery.writing import Writing
from bridge.observability.metrics import Metrics
from bridge.observability.redaction import describe, where
from bridge.queue.deliveries import ClaimedDelivery, DeliveryOutcome, in_hand
from bridge.queue.outbox import Outbox
from bridge.queue.waking import Alarm
from bridge.store.errors import StoreError, StoreUnavailable
from bridge.transports.errors import NoAcknowledgment
from mllp.errors import NotConnected, ReplyLost, Unframeable

LOOK_EVERY = 0.25  # seconds, when nobody notifies
PAUSE = 1.0  # seconds, when the database is not to be had
AT_ONCE = 64  # reports whose messages are composed together
SETTLE_EVERY = 0.2  # seconds that outcomes may wait to share a commit


def _nobody(reason: str) -> None:
    """Tell nobody."""


class Sender(Protocol):
    """What is needed of a connection; fails as `mllp.client` does, or with NoAcknowledgment."""

    def send(self, payload: bytes) -> Deferred[bytes]:
        """Send one payload, give its reply."""

    def close(self) -> Deferred[None]:
        """Stop for good."""


class Courier:
    """Delivers to one destination until it is stopped."""

    def __init__(
        self,
        destination: Destination,
        outbox: Outbox,
        composer: Composer,
        sender: Sender,
        metrics: Metrics,
        *,
        clock: Callable[[], int],
        random: Random,
        on_pause: Callable[[str], object] = _nobody,
        poll: float = LOOK_EVERY,
    ) -> None:
        """
        Join a destination with its connection; `clock` is in milliseconds, `poll` in seconds.

        `on_pause` is told, with the reply, when the destination is paused by its reply table.
        """
        self.destination = destination
        self._log = structlog.get_logger("courier").bind(destination=destination.name)
        self._outbox = outbox
        self._sender = sender
        self._metrics = metrics
        self._clock = clock
        self._on_pause = on_pause
        self._news = asyncio.Event()
        self._next_look = Alarm(poll)
        self._stopping = False
        self._paused = False
        self._breaker = Breaker(destination.retry, destination.breaker_after, random)
        self._appraiser = Appraiser(
            destination,
            self._breaker,
            metrics,
            clock=clock,
            random=random,
            on_pause=self._pause_for,
        )
        self._writing = Writing(composer, outbox, self._appraiser, self._alarm)
        self._in_hand: dict[int, ClaimedDelivery] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin. Claims of our former self must have been taken back (`Outbox.reclaim`)."""
        self._tasks = [
            asyncio.create_task(self._run(), name=f"courier {self.destination.name}"),
            asyncio.create_task(self._keep_leases(), name=f"leases {self.destination.name}"),
        ]

    async def stop(self, drain: float = 5.0) -> None:
        """Send no more; let the one in flight be answered, give the others back."""
        self._stopping = True
        self._news.set()
        if self._tasks:
            await asyncio.wait(self._tasks[:1], timeout=drain)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._give_back()
        await self._sender.close().asFuture(asyncio.get_running_loop())

    def pause(self) -> None:
        """Send nothing until `resume`; what is in flight is answered."""
        self._paused = True

    def _pause_for(self, reason: str) -> None:
        self.pause()
        self._on_pause(reason)

    def resume(self) -> None:
        """Send again."""
        self._paused = False
        self._news.set()

    def adopt(self, destination: Destination) -> None:
        """Go on with another definition (a mapping was activated); what is composed stays."""
        self.destination = destination

    def notify(self) -> None:
        """Tell that there may be something to deliver. On the event loop's thread."""
        self._news.set()

    async def _run(self) -> None:
        while not self._stopping:
            self._news.clear()
            try:
                if self._held():
                    await asyncio.sleep(LOOK_EVERY)
                    continue
                claimed = await self._claim()
                if not claimed:
                    await self._rest(self._next_look.rest(self._clock()))
                elif not await self._deliver(claimed):
                    await self._rest(LOOK_EVERY)
            except StoreError as error:
                self._alarm("nothing delivered", error)
                await self._rest(PAUSE)

    @property
    def pulse(self) -> tuple[int | None, int]:
        """Until when the circuit is open (ms; None: it is closed), and how many were answered."""
        return self._breaker.open_until, self._breaker.replies

    def _held(self) -> bool:
        """Whether nothing may be sent: an operator said so, or nobody answered lately."""
        circuit = self._breaker.circuit(self._clock())
        self._metrics.circuit_open.labels(self.destination.name).set(circuit is not Circuit.CLOSED)
        return self._paused or circuit is Circuit.OPEN

    async def _claim(self) -> Sequence[ClaimedDelivery]:
        name = self.destination.name
        trying = self._breaker.circuit(self._clock()) is Circuit.TRYING
        most = 1 if trying else AT_ONCE
        claimed = await asyncio.to_thread(self._outbox.claim, name, self._clock(), most)
        self._in_hand = {each.delivery_id: each for each in claimed}
        return claimed

    async def _rest(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), seconds)

    async def _deliver(self, claimed: Sequence[ClaimedDelivery]) -> bool:
        """
        Compose all, then send one after the other; what is not sent is given back.

        Tells whether the destination could be reached.
        """
        composed = await self._writing.compose(claimed, self.destination)
        outcomes = [each for each in composed if isinstance(each, DeliveryOutcome)]
        loop = asyncio.get_running_loop()
        settled_at = loop.time()
        try:
            for delivery, payload in zip(claimed, composed, strict=True):
                if self._stopping or self._held():
                    break
                if isinstance(payload, DeliveryOutcome):
                    continue
                outcome = await self._send(delivery, payload)
                if outcome is None:
                    return False
                outcomes.append(outcome)
                if loop.time() - settled_at > SETTLE_EVERY:
                    await self._settle(outcomes)
                    outcomes, settled_at = [], loop.time()
        finally:
            await self._settle(outcomes)
            await self._give_back()
        return True

    async def _send(self, delivery: ClaimedDelivery, payload: bytes) -> DeliveryOutcome | None:
        """Send one message; None when there is no connection, so that no other is tried."""
        sent_at = self._clock()
        in_hand.set(delivery)
        try:
            reply = await self._sender.send(payload).asFuture(asyncio.get_running_loop())
        except NotConnected:
            self._breaker.failed(sent_at)
            self._metrics.deliveries.labels(self.destination.name, "", "not_connected").inc()
            return None
        except ReplyLost as loss:
            return self._appraiser.judged(
                delivery, LOST[loss.reason], loss.reason.value, None, sent_at
            )
        except NoAcknowledgment as answer:
            return self._appraiser.judged(delivery, Reply.HTTP, str(answer.status), None, sent_at)
        except Unframeable:
            return given_up(delivery, "unframeable")
        said, error = read_reply(reply)
        return self._appraiser.judged(delivery, said, error, reply, sent_at)

    async def _settle(self, outcomes: Sequence[DeliveryOutcome]) -> None:
        """Write down what came of deliveries, however long the database is away."""
        while outcomes:
            try:
                await asyncio.to_thread(self._outbox.settle, outcomes, self._clock())
            except StoreUnavailable as error:
                self._alarm("outcomes not written down yet", error)
                await asyncio.sleep(PAUSE)
            else:
                for outcome in outcomes:
                    self._in_hand.pop(outcome.delivery_id, None)
                    if outcome.retry_at is not None:
                        self._next_look.note(outcome.retry_at)
                return

    async def _give_back(self) -> None:
        if self._in_hand:
            ids, self._in_hand = list(self._in_hand), {}
            with suppress(StoreUnavailable):  # the leases will end by themselves
                await asyncio.to_thread(self._outbox.release, ids, self._clock())

    async def _keep_leases(self) -> None:
        while True:
            await asyncio.sleep(self._outbox.lease / 3000)
            with suppress(StoreError):  # tried again at the next turn
                await self.extend()

    async def extend(self) -> None:
        """Keep what is in hand for another lease, by what the clock says now."""
        if self._in_hand:
            await asyncio.to_thread(self._outbox.extend, list(self._in_hand), self._clock())

    def _alarm(self, event: str, error: Exception) -> None:
        self._log.error(event, error=describe(error), trace=where(error))
