"""The worker: claim, apply, settle; turns stored messages into applied ones.

Where the database offers short work on the loop (`bridge.store.short_work`), the loop does what
concerns few messages itself.

Knows neither HL7 nor the engine: what applying means is handed in. Whatever that does, each
claimed message gets an outcome, and an outcome that cannot be written down now is tried again.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from random import Random, SystemRandom

from bridge.errors import FailureKind
from bridge.executors import Threads
from bridge.queue.claims import ClaimedMessage, MessageOutcome
from bridge.queue.inbox import ClaimedBatch, Inbox
from bridge.queue.states import QueueEvent, RetryPolicy
from bridge.queue.wakeup import PollTimer
from bridge.queue.worker.async_inbox import AsyncInbox
from bridge.queue.worker.in_flight import Batch, InFlightBatches, UnconfirmedClaims
from bridge.queue.worker.throttle import SMALL, ProcessingThrottle, unthrottled
from bridge.store.errors import StoreError, StoreUnavailable

Apply = Callable[[Sequence[ClaimedMessage]], AsyncGenerator[Sequence[MessageOutcome]]]
"""
Applies messages of different lanes, given oldest first; an outcome for each, in any order.

Outcomes are given as they come, and are written down before it goes on.
"""

POLL = 0.25
"""Seconds between looks at the inbox when nobody notifies."""

AWAY = RetryPolicy(first=0.25, maximum=5.0)
"""How often a service that is away is knocked at."""

COMPANY = 0.025
"""Seconds that what has come waits at most for the batch before it, to be claimed together."""

_GLANCE = 0.02  # seconds between looks at a rush
_PAUSE = 1.0  # seconds, when the database is not to be had

_NOTHING = ClaimedBatch([], more=False, undecided=False)

_log = logging.getLogger(__name__)


class Worker:
    """
    Applies what the inbox holds, up to `parallel` batches at a time.

    A batch that takes long holds up its own lanes and no other. Lives on the event loop.
    """

    def __init__(
        self,
        inbox: Inbox,
        apply: Apply,
        *,
        clock: Callable[[], int],
        batch: int = 100,
        parallel: int = 4,
        policy: RetryPolicy | None = None,
        random: Random | None = None,
        poll: float = POLL,
        throttle: ProcessingThrottle | None = None,
        company: float = COMPANY,
    ) -> None:
        self._inbox = inbox
        self._at_hand = AsyncInbox(inbox)
        self._apply = apply
        self._clock = clock
        self._batch = batch
        self._policy = policy or RetryPolicy()
        self._random = random or SystemRandom()
        self._alarm = PollTimer(poll)
        self._throttle = throttle or unthrottled()
        self._company = company
        self._newest: Batch | None = None
        self._more = False  # whether the last claim left what could have been claimed
        self._turning: set[Batch] = set()  # batches that are just claiming the next
        self._hands = InFlightBatches(parallel)
        self._doubts = UnconfirmedClaims(inbox, self._hands, clock)
        self._news = asyncio.Event()
        self._stopping = False
        self._away = 0  # batches in a row that never reached the service
        self._undecided = False  # whether the last claim left what waits for one in hand
        self._loop: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Take back what our former self had claimed, and begin."""
        await Threads.INTAKE.run(
            self._inbox.requeue_expired_claims, self._clock(), include_own=True
        )
        self._stopping = False
        self._loop = asyncio.create_task(self._run(), name="worker")

    async def stop(self, drain: float = 10.0) -> None:
        """Claim no more; let what is in hand finish for `drain` seconds, then give it back."""
        self._stopping = True
        self.notify()
        if self._loop is not None:
            await asyncio.wait([self._loop])
        await self._hands.wait_until_empty(drain)
        ids = self._hands.message_ids()
        await self._hands.cancel()
        if ids:
            with suppress(StoreUnavailable):  # the leases will end by themselves
                await Threads.INTAKE.run(self._inbox.release, ids, self._clock())

    def notify(self) -> None:
        """Tell that there may be something to claim. On the event loop's thread."""
        self._news.set()

    def notify_of_old_messages(self) -> None:
        """As `notify`, where it may be something old that others have queued."""
        self._inbox.expect_old_messages()
        self.notify()

    @property
    def lease(self) -> float:
        """Seconds of a claim's lease."""
        return self._inbox.lease / 1000

    async def keep_leases(self) -> None:
        """
        Extend the claims of what is in progress; requeue claims of others that have ended.

        Called three times a lease. Raises StoreError.
        """
        await Threads.LEASES.run(self._inbox.extend, self._hands.message_ids(), self._clock())
        if await Threads.LEASES.run(self._inbox.requeue_expired_claims, self._clock()):
            self.notify_of_old_messages()

    async def _run(self) -> None:
        while not self._stopping:
            await self._hands.acquire_slot()
            await self._give_way()
            await self._wait_for_service()
            due = await self._gather()
            handful = await self._claim() if due else _NOTHING
            if not self._begin(handful):
                self._hands.release_slot()
            if not handful.messages or not handful.more:
                await self._rest()

    def _begin(self, handful: ClaimedBatch, after: Batch | None = None) -> bool:
        """Work on what was claimed, in the room of the batch before if it is given; tell if so."""
        if not handful.messages:
            return False
        self._newest = task = asyncio.create_task(self._work(handful.messages))
        self._hands.add(task, handful.messages, after)
        task.add_done_callback(self._finished)
        return True

    async def _give_way(self) -> None:
        """Let a rush of arrivals pass, but not for ever: what was accepted must get done."""
        loop = asyncio.get_running_loop()
        since = loop.time()
        while not self._stopping:  # clocks and counts ring no bell
            left = since + self._throttle.pause - loop.time()
            if self._throttle.is_loaded and self._hands:
                left = _GLANCE
            if left <= 0:
                return
            await asyncio.sleep(min(left, _GLANCE))

    async def _wait_for_service(self) -> None:
        """Do not try each message in turn on a service that is away: knock now and then."""
        loop = asyncio.get_running_loop()
        until = loop.time() + AWAY.delay(self._away, self._random)
        while self._away and not self._stopping and loop.time() < until:  # noqa: ASYNC110  # as above
            await asyncio.sleep(_GLANCE)

    async def _gather(self) -> bool:
        """
        Let the newest batch get done first, if that is soon and nothing was left to claim.

        A batch costs as much as some ten messages before it has any: several small ones at once
        only keep each other waiting. What comes meanwhile is the next, which that one claims when
        it is done: tell whether there is still something to claim.
        """
        newest = self._newest
        if newest is not None and not self._more:
            await asyncio.wait([newest], timeout=self._company)
            while newest in self._turning:
                await asyncio.wait([newest], timeout=self._company)
        return self._more or self._newest is newest

    def _finished(self, task: Batch) -> None:
        self._hands.remove(task)
        if self._undecided:
            self.notify()

    async def _claim(self) -> ClaimedBatch:
        self._news.clear()
        if self._stopping:
            return _NOTHING
        try:
            if not self._turning:
                await self._doubts.requeue()
            handful = await self._at_hand.take(self._clock(), self._size())
        except StoreError as error:
            _log.warning("no messages claimed: %s", error)
            self._doubts.possible = True
            await asyncio.sleep(_PAUSE)
            return _NOTHING
        self._note(handful)
        return handful

    def _size(self) -> int:
        """Give how many messages to claim."""
        small = self._throttle.is_loaded or self._away
        return min(self._batch, SMALL) if small else self._batch

    def _note(self, handful: ClaimedBatch) -> None:
        self._undecided, self._more = handful.undecided, handful.more

    async def _rest(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._alarm.seconds_until_next(self._clock())):
                await self._news.wait()

    async def _work(self, claimed: Sequence[ClaimedMessage]) -> None:
        began = asyncio.get_running_loop().time()
        open_ = {each.message_id: each.attempts for each in claimed}
        reached = False
        try:
            async with aclosing(self._apply(claimed)) as given:
                async for outcomes in given:
                    reached |= any(each.failure is not FailureKind.TRANSIENT for each in outcomes)
                    await self._finish(outcomes, open_, reached=reached)
        except Exception as error:  # noqa: BLE001  # whatever it is, these must be tried again
            kind = type(error).__name__  # a traceback may quote the message
            _log.error("applying %d messages failed: %s", len(claimed), kind)
        unknown = [_unknown(message_id) for message_id in open_]
        self._away = 0 if reached or unknown else self._away + 1
        await self._finish(unknown, open_)
        self._throttle.worked(asyncio.get_running_loop().time() - began)

    async def _finish(
        self, outcomes: Sequence[MessageOutcome], open_: dict[int, int], *, reached: bool = False
    ) -> None:
        """Settle those of the open messages; they are given with their attempts."""
        known = [self._dated(e, open_[e.message_id]) for e in outcomes if e.message_id in open_]
        if known:
            await self._settle(known, goes_on=reached and self._goes_on(len(open_) - len(known)))
        for each in known:
            open_.pop(each.message_id, None)

    def _goes_on(self, left: int) -> bool:
        """Tell whether a batch of which so many are left is to claim the next when it settles."""
        held_up = self._stopping or self._away or self._throttle.pause > 0 or self._doubts.possible
        if left or held_up:
            return False
        return self._more or (self._news.is_set() and self._newest is asyncio.current_task())

    def _dated(self, outcome: MessageOutcome, attempts: int) -> MessageOutcome:
        """Set the time of the next attempt where the outcome leaves it to the policy."""
        if outcome.event is not QueueEvent.POSTPONED:
            return outcome
        if outcome.retry_at is None:
            delay = self._policy.delay(attempts, self._random)
            outcome = replace(outcome, retry_at=self._clock() + round(delay * 1000))
        self._alarm.add_due_time(outcome.retry_at or 0)
        return outcome

    async def _settle(self, outcomes: Sequence[MessageOutcome], *, goes_on: bool) -> None:
        """Write the outcomes down, however long the database is away."""
        while True:
            try:
                if goes_on:
                    await self._turn_over(outcomes)
                    return
                settled = await self._at_hand.settle(outcomes, self._clock())
            except StoreUnavailable as error:
                _log.warning("%d outcomes not written down yet: %s", len(outcomes), error)
                self._doubts.possible |= goes_on
                goes_on = False
                await asyncio.sleep(_PAUSE)
                continue
            if settled.unblocked_any or _any_postponed(outcomes):
                self.notify()
            return

    async def _turn_over(self, outcomes: Sequence[MessageOutcome]) -> None:
        """Write outcomes down and claim the next batch, to which the room of this one goes."""
        done = asyncio.current_task()
        assert done is not None  # noqa: S101  # this is a coroutine
        self._news.clear()
        self._turning.add(done)
        handful = ClaimedBatch([], more=True, undecided=False)
        try:
            handful = await self._at_hand.settle_and_claim(outcomes, self._clock(), self._size())
        finally:
            self._turning.remove(done)
            if (handful.more and not handful.messages) or _any_postponed(outcomes):
                self.notify()
        self._note(handful)
        self._begin(handful, done)


def _any_postponed(outcomes: Sequence[MessageOutcome]) -> bool:
    return any(each.event is QueueEvent.POSTPONED for each in outcomes)


def _unknown(message_id: int) -> MessageOutcome:
    return MessageOutcome(message_id, QueueEvent.POSTPONED, FailureKind.AMBIGUOUS, "no-outcome")
