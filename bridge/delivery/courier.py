"""
One destination's courier: claims what is due, composes it once, sends it, stores the outcome.

One message is in flight. Meanwhile the next batch is claimed and composed, and the outcomes before
it are stored. `replies` decides what follows a reply. A destination that cannot be reached holds up
itself only; a result that is refused holds up its own report only.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Protocol

import structlog
from twisted.internet.defer import Deferred

from bridge.delivery.appraisal import Appraiser, Breaker, Circuit, given_up
from bridge.delivery.composer import Composer
from bridge.delivery.destinations import Destination
from bridge.delivery.preparation import Claimed, Preparation, Prepared
from bridge.delivery.replies import LOST, Reply, read_reply
from bridge.delivery.report_texts import ReportTexts
from bridge.executors import Threads
from bridge.metrics import Metrics
from bridge.queue.deliveries import (
    INTERRUPTED,
    NOT_CONNECTED,
    ClaimedDelivery,
    DeliveryOutcome,
    current_delivery,
)
from bridge.queue.outbox import Outbox
from bridge.queue.wakeup import PollTimer
from bridge.redaction import describe, where
from bridge.store.errors import Conflict, StoreError, StoreUnavailable
from bridge.transports.errors import NoAcknowledgment
from mllp.errors import NotConnected, ReplyLost, Unframeable

LOOK_EVERY = 0.25  # seconds, when nobody notifies
PAUSE = 1.0  # seconds, when the database is not to be had
AT_ONCE = 32  # reports whose messages are composed together; as many wait composed

GATHER = 0.1  # seconds that outcomes may wait to share a commit, while more of them come
MOST_OUTCOMES = 256  # outcomes that may wait: so many messages would be sent again


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
        texts: ReportTexts,
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
        self._next_look = PollTimer(poll)
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
        self._preparation = Preparation(composer, texts, outbox, self._appraiser, self._alarm)
        self._outcomes = OutcomeWriter(outbox, clock, self._settled, self._alarm)
        self._in_hand: dict[int, ClaimedDelivery] = {}
        self._claiming: asyncio.Task[Claimed] | None = None
        self._next: asyncio.Task[Sequence[Prepared]] | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin. Claims of our former self must have been taken back (`Outbox.reclaim`)."""
        self._task = asyncio.create_task(self._run(), name=f"courier {self.destination.name}")

    async def stop(self, drain: float = 5.0) -> None:
        """Send no more; let the one in flight be answered, give the others back."""
        self._stopping = True
        self._news.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=drain)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._outcomes.forget()
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
            try:
                if self._held():
                    await self._give_back()
                    await asyncio.sleep(LOOK_EVERY)
                    continue
                batch = await self._due()
                if not batch:
                    await self._rest(self._next_look.seconds_until_next(self._clock()))
                elif not await self._deliver(batch):
                    await self._rest(LOOK_EVERY)
            except StoreError as error:
                self._alarm("nothing delivered", error)
                await self._rest(PAUSE)
        await self._outcomes.done()

    @property
    def pulse(self) -> tuple[int | None, int, int]:
        """Until when the circuit is open (ms, None: closed); how many were answered, refused."""
        return self._breaker.open_until, self._breaker.replies, self._breaker.refused

    def _held(self) -> bool:
        """Whether nothing may be sent: an operator said so, or nobody answered lately."""
        circuit = self._breaker.circuit(self._clock())
        self._metrics.circuit_open.labels(self.destination.name).set(circuit is not Circuit.CLOSED)
        return self._paused or circuit is Circuit.OPEN

    async def _due(self) -> Sequence[Prepared]:
        """Give the batch that was prepared ahead; else prepare one, behind what was settled."""
        upcoming, self._next = self._next, None
        if upcoming is not None and (batch := await upcoming):
            return batch
        await self._outcomes.done()
        self._news.clear()
        return await self._prepare()

    async def _prepare(self) -> Sequence[Prepared]:
        """Claim and compose a batch."""
        destination = self.destination  # another may be adopted meanwhile
        self._claiming = asyncio.create_task(self._claim(destination))
        claimed = await asyncio.shield(self._claiming)  # `_give_back` has to know what it took
        return await self._preparation.compose(claimed, destination)

    async def _claim(self, destination: Destination) -> Claimed:
        now = self._clock()
        most = 1 if self._breaker.circuit(now) is Circuit.TRYING else AT_ONCE
        claim = await self._preparation.claim(destination, now, most)
        self._in_hand |= {each.delivery_id: each for each in claim[0]}
        return claim

    async def _rest(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()

    async def _deliver(self, batch: Sequence[Prepared]) -> bool:
        """
        Send one after the other; give back what is not sent.

        Tells whether the destination could be reached.
        """
        if len(batch) == AT_ONCE and self._next is None:
            self._next = asyncio.create_task(self._prepare())
        for delivery, payload in batch:
            if isinstance(payload, DeliveryOutcome):
                await self._outcomes.add(payload)
                continue
            if self._stopping or self._held():
                await self._give_back()
                return True
            outcome = await self._send(delivery, payload)
            if outcome is None:
                await self._give_back(NOT_CONNECTED)
                return False
            await self._outcomes.add(outcome)
        return True

    async def _send(self, delivery: ClaimedDelivery, payload: bytes) -> DeliveryOutcome | None:
        """Send one message; None when there is no connection, so that no other is tried."""
        sent_at = self._clock()
        current_delivery.set(delivery)
        try:
            reply = await self._sender.send(payload).asFuture(asyncio.get_running_loop())
        except NotConnected:
            self._breaker.failed(sent_at)
            self._metrics.deliveries.labels(self.destination.name, "", NOT_CONNECTED).inc()
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

    def _settled(self, outcomes: Sequence[DeliveryOutcome]) -> None:
        for outcome in outcomes:
            self._in_hand.pop(outcome.delivery_id, None)
            if outcome.retry_at is not None:
                self._next_look.add_due_time(outcome.retry_at)

    async def _give_back(self, why: str = INTERRUPTED) -> None:
        """Store the outcome of what was sent; give back all that was not, with a code for why."""
        await self._outcomes.done()
        upcoming, self._next = self._next, None
        if upcoming is not None:
            upcoming.cancel()
            await asyncio.gather(upcoming, return_exceptions=True)
        if self._claiming is not None:
            await asyncio.gather(self._claiming, return_exceptions=True)
        if self._in_hand:
            ids, self._in_hand = list(self._in_hand), {}
            with suppress(StoreUnavailable):  # the leases will end by themselves
                await Threads.DELIVERY.run(self._outbox.release, ids, self._clock(), why)

    async def keep_leases(self) -> None:
        """
        Extend the claims of what is in progress, by what the clock says now.

        Called several times a lease. Raises StoreError.
        """
        if self._in_hand:
            await Threads.LEASES.run(self._outbox.extend, list(self._in_hand), self._clock())

    async def hasten(self) -> None:
        """Bring attempts forward that a clock set back has put off. Raises StoreError."""
        name, longest = self.destination.name, self.destination.retry.maximum
        if await Threads.DELIVERY.run(self._outbox.make_due, name, self._clock(), longest):
            self._news.set()

    def _alarm(self, event: str, error: Exception) -> None:
        self._log.error(event, error=describe(error), trace=where(error))


class OutcomeWriter:
    """
    Stores the outcomes of one courier while it sends the next messages.

    The first outcome is stored at once. Outcomes that come during its commit share the next commit.
    If the process ends before an outcome is stored, the same bytes are sent again.
    """

    def __init__(
        self,
        outbox: Outbox,
        clock: Callable[[], int],
        settled: Callable[[Sequence[DeliveryOutcome]], None],
        alarm: Callable[[str, Exception], None],
    ) -> None:
        """`settled` is told what has been written; `alarm`, in words, what could not be."""
        self._outbox = outbox
        self._clock = clock
        self._settled = settled
        self._alarm = alarm
        self._waiting: list[DeliveryOutcome] = []
        self._task: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()

    async def add(self, outcome: DeliveryOutcome) -> None:
        """Take an outcome; wait only where too many wait."""
        self._waiting.append(outcome)
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="outcomes")
        elif len(self._waiting) >= MOST_OUTCOMES:
            await self.done()

    async def done(self) -> bool:
        """Wait until all is written, however long the database is away; tell if there was any."""
        if self._task is None:
            return False
        self._hurry.set()
        await asyncio.shield(self._task)
        return True

    def forget(self) -> None:
        """Stop: what is not written by now will be sent again."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        try:
            while self._waiting:
                taken, self._waiting = self._waiting, []
                await self._write(taken)
                if self._waiting and not self._hurry.is_set():
                    await self._gather()
        finally:
            self._task = None
            self._hurry.clear()

    async def _gather(self) -> None:
        try:
            await asyncio.wait_for(self._hurry.wait(), GATHER)
        except TimeoutError:
            return

    async def _write(self, outcomes: Sequence[DeliveryOutcome]) -> None:
        while True:
            try:
                await Threads.DELIVERY.run(self._outbox.settle, outcomes, self._clock())
            except (StoreUnavailable, Conflict) as error:
                self._alarm("outcomes not written down yet", error)
                await asyncio.sleep(PAUSE)
            except StoreError as error:  # their leases will end: then they are sent again
                self._alarm("outcomes not written down", error)
                return
            else:
                self._settled(outcomes)
                return
