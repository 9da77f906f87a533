"""
The worker: claim stored messages, apply them, and settle the outcomes.

It knows neither HL7 nor the report engine: the caller passes the function that applies messages.
Each claimed message gets an outcome, and an outcome that cannot be stored now is stored later.

When the connection breaks during the commit of a claim, this process may own messages that no batch
holds. Without correction their patients would wait until the lease ends. Deliveries do wait for
their lease: sending late is better than sending twice.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from random import Random, SystemRandom

import structlog

from bridge.errors import FailureKind
from bridge.executors import Threads
from bridge.queue.claims import ClaimedMessage, MessageOutcome
from bridge.queue.inbox import ClaimedBatch, Inbox
from bridge.queue.states import QueueEvent, RetryPolicy
from bridge.queue.wakeup import PollTimer
from bridge.redaction import describe
from bridge.store.errors import StoreError, StoreUnavailable

Apply = Callable[[Sequence[ClaimedMessage]], AsyncGenerator[Sequence[MessageOutcome]]]
"""
Applies messages of different lanes, oldest first; yields an outcome for each, in any order.

Each yielded list is stored before the generator continues.
"""

Batch = asyncio.Task[None]
"""The task that applies a batch."""

POLL = 0.25
"""Seconds between polls of the inbox without notifications."""

ENGINE_BACKOFF = RetryPolicy(first=0.25, maximum=5.0)
"""Backoff while the report engine is unavailable."""

GATHER_SECONDS = 0.025
"""Longest time in seconds that a new batch waits for the previous one, to be claimed with it."""

_CHECK_SECONDS = 0.02  # seconds between checks of the back-off
_SMALL_BATCH = 10  # messages of a batch while the engine is unavailable
_STORE_RETRY_SECONDS = 1.0  # seconds, while the database is unavailable

_EMPTY = ClaimedBatch([], more=False, undecided=False)

_log = structlog.get_logger("messages")


class InFlightBatches:
    """
    The batches that are being applied, at most `slots` at a time.

    A batch that claims the next one passes its slot on.
    """

    def __init__(self, slots: int) -> None:
        self._slots = asyncio.Semaphore(slots)
        self._messages: dict[Batch, Sequence[ClaimedMessage]] = {}
        self._passed_on: set[Batch] = set()

    def __bool__(self) -> bool:
        return bool(self._messages)

    async def acquire_slot(self) -> None:
        """Wait for a free slot and take it."""
        await self._slots.acquire()

    def release_slot(self) -> None:
        self._slots.release()

    def add(self, task: Batch, messages: Sequence[ClaimedMessage], after: Batch | None) -> None:
        """Register a task with its messages. It takes over the slot of `after`, if given."""
        self._messages[task] = messages
        if after is not None:
            self._passed_on.add(after)

    def remove(self, task: Batch) -> None:
        del self._messages[task]
        if task in self._passed_on:
            self._passed_on.remove(task)
        else:
            self._slots.release()

    def tasks(self) -> list[Batch]:
        return list(self._messages)

    async def cancel(self) -> None:
        """Cancel all tasks and wait for them."""
        ending = self.tasks()
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    def messages(self) -> list[ClaimedMessage]:
        return [message for batch in self._messages.values() for message in batch]

    def message_ids(self) -> list[int]:
        return [message.message_id for message in self.messages()]

    def attempts(self) -> dict[int, int]:
        """Return the number of the attempt in progress of each message."""
        return {message.message_id: message.attempts for message in self.messages()}

    async def wait_until_empty(self, seconds: float) -> None:
        """Wait until no batch is in progress, at most `seconds`."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while self._messages and (left := until - loop.time()) > 0:
            await asyncio.wait(self.tasks(), timeout=left)
            await asyncio.sleep(0)  # done callbacks run in the next iteration of the loop


class UnconfirmedClaims:
    """Whether unconfirmed claims may exist, and how they are requeued."""

    def __init__(self, inbox: Inbox, batches: InFlightBatches, clock: Callable[[], int]) -> None:
        self.possible = False
        """Whether a claim has failed since the last requeue. No claim runs at the same time."""
        self._inbox = inbox
        self._batches = batches
        self._clock = clock

    async def requeue(self) -> None:
        """
        Requeue messages that this node owns and no batch holds. Raises StoreError.

        Must not run during a claim: its messages are owned, but not yet registered.
        """
        if self.possible:
            in_progress = frozenset(self._batches.message_ids())
            now, requeue = self._clock(), self._inbox.requeue_expired_claims
            if await Threads.LEASES.run(requeue, now, include_own=True, except_ids=in_progress):
                self._inbox.expect_old_messages()
            self.possible = False


class Worker:
    """
    Applies the messages of the inbox, up to `parallel` batches at a time.

    A slow batch delays its own lanes only. Runs on the event loop.
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
        gather_seconds: float = GATHER_SECONDS,
    ) -> None:
        self._inbox = inbox
        self._apply = apply
        self._clock = clock
        self._batch = batch
        self._policy = policy or RetryPolicy()
        self._random = random or SystemRandom()
        self._poll_timer = PollTimer(poll)
        self._gather_seconds = gather_seconds
        self._newest: Batch | None = None
        self._more = False  # whether the last claim left messages that are free
        self._claiming: set[Batch] = set()  # batches that are claiming the next one
        self._batches = InFlightBatches(parallel)
        self._unconfirmed = UnconfirmedClaims(inbox, self._batches, clock)
        self._notified = asyncio.Event()
        self._stopping = False
        self._failed_batches = 0  # consecutive batches that did not reach the engine
        self._undecided = False  # as `LaneClaim.undecided`, of the last claim
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Requeue the claims of the previous run of this node, and start."""
        await Threads.MESSAGES.run(
            self._inbox.requeue_expired_claims, self._clock(), include_own=True
        )
        self._stopping = False
        self._task = asyncio.create_task(self._run(), name="worker")

    async def stop(self, drain: float = 10.0) -> None:
        """Stop claiming; let batches finish for `drain` seconds, then return their claims."""
        self._stopping = True
        self.notify()
        if self._task is not None:
            await asyncio.wait([self._task])
        await self._batches.wait_until_empty(drain)
        ids = self._batches.message_ids()
        await self._batches.cancel()
        with suppress(StoreUnavailable):  # the leases will expire
            if ids:
                await Threads.MESSAGES.run(self._inbox.release, ids, self._clock())
            await Threads.MESSAGES.run(self._inbox.store_acknowledged)

    def notify(self) -> None:
        """Wake the worker: there may be something to claim. On the event loop's thread."""
        self._notified.set()

    def notify_of_old_messages(self) -> None:
        """As `notify`. Also scan old rows: another process may have requeued some."""
        self._inbox.expect_old_messages()
        self.notify()

    @property
    def lease(self) -> float:
        """Seconds of a claim's lease."""
        return self._inbox.lease / 1000

    async def keep_leases(self) -> None:
        """
        Extend the claims in progress; requeue expired claims of others; correct due times.

        Called three times per lease. Raises StoreError.
        """
        messages, ends_at = self._batches.messages(), self._inbox.lease_from_now()
        ids = [message.message_id for message in messages]
        extended = await Threads.LEASES.run(self._inbox.extend, ids, self._clock())
        for message in messages:
            if message.message_id in extended and message.lease.is_held:
                message.lease.ends_at = ends_at
        requeued = await Threads.LEASES.run(self._inbox.requeue_expired_claims, self._clock())
        if await Threads.LEASES.run(self._inbox.correct_due_times, self._clock()) or requeued:
            self.notify_of_old_messages()

    async def _run(self) -> None:
        while not self._stopping:
            await self._batches.acquire_slot()
            await self._wait_for_engine()
            due = await self._gather()
            batch = await self._claim() if due else _EMPTY
            if not self._start_batch(batch):
                self._batches.release_slot()
            if not batch.messages or not batch.more:
                await self._wait_for_notification()

    def _start_batch(self, batch: ClaimedBatch, after: Batch | None = None) -> bool:
        """Start applying claimed messages, in the slot of `after` if given; False if none."""
        if not batch.messages:
            return False
        self._newest = task = asyncio.create_task(self._work(batch.messages))
        self._batches.add(task, batch.messages, after)
        task.add_done_callback(self._batch_ended)
        return True

    async def _wait_for_engine(self) -> None:
        """Back off while the report engine is unavailable."""
        loop = asyncio.get_running_loop()
        until = loop.time() + ENGINE_BACKOFF.delay(self._failed_batches, self._random)
        while self._failed_batches and not self._stopping and loop.time() < until:  # noqa: ASYNC110  # the stop has no event
            await asyncio.sleep(_CHECK_SECONDS)

    async def _gather(self) -> bool:
        """
        Wait for the newest batch if it may end soon and nothing was left to claim.

        A batch has fixed costs of some ten messages, so several small batches delay each other.
        When the newest batch ends, it claims what has come since. Return whether there is still
        something to claim.
        """
        newest = self._newest
        if newest is not None and not self._more:
            await asyncio.wait([newest], timeout=self._gather_seconds)
            while newest in self._claiming:
                await asyncio.wait([newest], timeout=self._gather_seconds)
        return self._more or self._newest is newest

    def _batch_ended(self, task: Batch) -> None:
        self._batches.remove(task)
        if self._undecided:
            self.notify()

    async def _claim(self) -> ClaimedBatch:
        if self._stopping:
            return _EMPTY  # `stop` has notified, which must end the next wait
        self._notified.clear()
        try:
            if not self._claiming:
                await self._unconfirmed.requeue()
            claim, held = self._inbox.claim_batch, self._batches.attempts()
            batch = await Threads.MESSAGES.run(claim, self._clock(), self._size())
        except StoreError as error:
            _log.warning("no messages claimed", error=describe(error))
            self._unconfirmed.possible = True
            await asyncio.sleep(_STORE_RETRY_SECONDS)
            self.notify()  # claim again at once: the earlier notification has been cleared
            return _EMPTY
        self._note(batch)
        return _without(batch, held)

    def _size(self) -> int:
        """Return the number of messages to claim."""
        return min(self._batch, _SMALL_BATCH) if self._failed_batches else self._batch

    def _note(self, batch: ClaimedBatch) -> None:
        self._undecided, self._more = batch.undecided, batch.more

    async def _wait_for_notification(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._poll_timer.seconds_until_next(self._clock())):
                await self._notified.wait()

    async def _work(self, claimed: Sequence[ClaimedMessage]) -> None:
        unsettled = {message.message_id: message for message in claimed}
        engine_reached = False
        try:
            async with aclosing(self._apply(claimed)) as batches:
                async for outcomes in batches:
                    engine_reached |= any(
                        outcome.failure is not FailureKind.TRANSIENT for outcome in outcomes
                    )
                    await self._settle_known(outcomes, unsettled, engine_reached=engine_reached)
        except Exception as error:  # noqa: BLE001  # the messages must be retried after any error
            _log.error("messages not applied", count=len(claimed), error=describe(error))
        unknown = [_unknown(message_id) for message_id in unsettled]
        self._failed_batches = 0 if engine_reached or unknown else self._failed_batches + 1
        await self._settle_known(unknown, unsettled)

    async def _settle_known(
        self,
        outcomes: Sequence[MessageOutcome],
        unsettled: dict[int, ClaimedMessage],
        *,
        engine_reached: bool = False,
    ) -> None:
        known = [
            self._completed(outcome, unsettled[outcome.message_id])
            for outcome in outcomes
            if outcome.message_id in unsettled
        ]
        if known:
            await self._store_outcomes(
                known,
                claim_next=engine_reached and self._can_claim_next(len(unsettled) - len(known)),
            )
        for outcome in known:
            unsettled.pop(outcome.message_id, None)

    def _can_claim_next(self, left: int) -> bool:
        """True if a batch with `left` unsettled messages claims the next one."""
        held_up = self._stopping or self._failed_batches or self._unconfirmed.possible
        if left or held_up:
            return False
        return self._more or (self._notified.is_set() and self._newest is asyncio.current_task())

    def _completed(self, outcome: MessageOutcome, claimed: ClaimedMessage) -> MessageOutcome:
        """Add the claimed message's time, and the next attempt's if it is left to the policy."""
        retry_at = outcome.retry_at
        if outcome.event is QueueEvent.POSTPONED:
            if retry_at is None:
                delay = self._policy.delay(claimed.attempts, self._random)
                retry_at = self._clock() + round(delay * 1000)
            self._poll_timer.add_due_time(retry_at)
        return replace(
            outcome,
            retry_at=retry_at,
            received_at=claimed.received_at,
            attempts=claimed.attempts,
        )

    async def _store_outcomes(
        self, outcomes: Sequence[MessageOutcome], *, claim_next: bool
    ) -> None:
        """Store the outcomes; retry while the database is unavailable."""
        last = self._clock()
        while True:
            now = self._clock()
            outcomes, last = _shift_retry_times(outcomes, now - last), now
            try:
                if claim_next:
                    await self._settle_and_claim(outcomes)
                    return
                settled = await Threads.MESSAGES.run(self._inbox.settle, outcomes, now)
            except StoreUnavailable as error:
                _log.warning(
                    "outcomes not stored, trying again", count=len(outcomes), error=describe(error)
                )
                self._unconfirmed.possible |= claim_next
                claim_next = False
                await asyncio.sleep(_STORE_RETRY_SECONDS)
                continue
            if settled.unblocked_any or _any_postponed(outcomes):
                self.notify()
            return

    async def _settle_and_claim(self, outcomes: Sequence[MessageOutcome]) -> None:
        """Settle and claim the next batch, which takes over the slot of this one."""
        done = asyncio.current_task()
        assert done is not None  # noqa: S101  # this runs in a task
        self._notified.clear()
        self._claiming.add(done)
        batch = ClaimedBatch([], more=True, undecided=False)
        held = self._batches.attempts()
        try:
            work = self._inbox.settle_and_claim
            _, batch = await Threads.MESSAGES.run(work, outcomes, self._clock(), self._size())
        finally:
            self._claiming.remove(done)
            if (batch.more and not batch.messages) or _any_postponed(outcomes):
                self.notify()
        self._note(batch)
        self._start_batch(_without(batch, held), done)


def _without(batch: ClaimedBatch, held: Mapping[int, int]) -> ClaimedBatch:
    """
    Return a batch without the attempts that were in progress before it was claimed.

    After a failover that lost the claim of an attempt, a claim returns the same attempt again. The
    outcome of the first one settles it; a second one could end after a later message of its order.
    """
    messages = [one for one in batch.messages if held.get(one.message_id) != one.attempts]
    return replace(batch, messages=messages)


def _shift_retry_times(outcomes: Sequence[MessageOutcome], passed: int) -> Sequence[MessageOutcome]:
    """Add the `passed` ms since their computation to retry times, to keep the delays."""
    if not passed:
        return outcomes
    return [
        outcome
        if outcome.retry_at is None
        else replace(outcome, retry_at=outcome.retry_at + passed)
        for outcome in outcomes
    ]


def _any_postponed(outcomes: Sequence[MessageOutcome]) -> bool:
    return any(outcome.event is QueueEvent.POSTPONED for outcome in outcomes)


def _unknown(message_id: int) -> MessageOutcome:
    return MessageOutcome(message_id, QueueEvent.POSTPONED, FailureKind.AMBIGUOUS, "no-outcome")
