"""
Claim, apply, settle: the loop that turns stored messages into applied ones.

Knows neither HL7 nor the engine: what applying means is handed in. Whatever that does, each
claimed message gets an outcome, and an outcome that cannot be written down now is tried again.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from random import Random, SystemRandom

from bridge.queue.courtesy import SMALL, Courtesy, nobody
from bridge.queue.inbox import Handful, Inbox
from bridge.queue.retry import Policy
from bridge.queue.states import Event, Failure
from bridge.queue.waking import Alarm
from bridge.queue.work import Claimed, Outcome
from bridge.store.errors import StoreError, StoreUnavailable

Apply = Callable[[Sequence[Claimed]], AsyncGenerator[Sequence[Outcome]]]
"""
Applies messages of different lanes, given oldest first; an outcome for each, in any order.

Outcomes are given as they come, and are written down before it goes on.
"""

POLL = 0.25
"""Seconds between looks at the inbox when nobody notifies."""

AWAY = Policy(first=0.25, maximum=5.0)
"""How often a service that is away is knocked at."""

COMPANY = 0.025
"""Seconds that what has come waits at most for the batch before it, to be claimed together."""

_GLANCE = 0.02  # seconds between looks at a rush
_PAUSE = 1.0  # seconds, when the database is not to be had

_log = logging.getLogger(__name__)


class Worker:
    """
    Applies what the inbox holds, up to `parallel` batches at a time.

    A batch that takes long holds up its own lanes and no other. Lives on the event loop; the
    database is used in threads.
    """

    def __init__(
        self,
        inbox: Inbox,
        apply: Apply,
        *,
        clock: Callable[[], int],
        batch: int = 100,
        parallel: int = 4,
        policy: Policy | None = None,
        random: Random | None = None,
        poll: float = POLL,
        courtesy: Courtesy | None = None,
        company: float = COMPANY,
    ) -> None:
        self._inbox = inbox
        self._apply = apply
        self._clock = clock
        self._batch = batch
        self._policy = policy or Policy()
        self._random = random or SystemRandom()
        self._alarm = Alarm(poll)
        self._courtesy = courtesy or nobody()
        self._company = company
        self._newest: asyncio.Task[None] | None = None
        self._more = False  # whether the last claim left what could have been claimed
        self._room = asyncio.Semaphore(parallel)
        self._news = asyncio.Event()
        self._stopping = False
        self._away = 0  # batches in a row that never reached the service
        self._undecided = False  # whether the last claim left what waits for one in hand
        self._in_hand: dict[asyncio.Task[None], Sequence[Claimed]] = {}
        self._loops: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Take back what our former self had claimed, and begin."""
        await asyncio.to_thread(self._inbox.reclaim, self._clock(), starting=True)
        self._stopping = False
        self._loops = [
            asyncio.create_task(self._run(), name="worker"),
            asyncio.create_task(self._keep_leases(), name="worker leases"),
        ]

    async def stop(self, drain: float = 10.0) -> None:
        """Claim no more; let what is in hand finish for `drain` seconds, then give it back."""
        self._stopping = True
        self.notify()
        if self._loops:
            await asyncio.wait(self._loops[:1])
        if self._in_hand:
            await asyncio.wait(list(self._in_hand), timeout=drain)
        unfinished = dict(self._in_hand)
        await _cancel([*unfinished, *self._loops])
        ids = [each.message_id for batch in unfinished.values() for each in batch]
        if ids:
            with suppress(StoreUnavailable):  # the leases will end by themselves
                await asyncio.to_thread(self._inbox.release, ids, self._clock())

    def notify(self) -> None:
        """Tell that there may be something to claim. On the event loop's thread."""
        self._news.set()

    def look_around(self) -> None:
        """As `notify`, where it may be something old that others have queued."""
        self._inbox.hurry()
        self.notify()

    async def _run(self) -> None:
        while not self._stopping:
            await self._room.acquire()
            await self._give_way()
            await self._wait_for_service()
            await self._gather()
            self._news.clear()
            handful = await self._claim()
            self._more = handful.more
            if handful.messages:
                task = asyncio.create_task(self._work(handful.messages))
                self._in_hand[task] = handful.messages
                self._newest = task
                task.add_done_callback(self._finished)
            else:
                self._room.release()
            if not handful.messages or not handful.more:
                await self._rest()

    async def _give_way(self) -> None:
        """Let a rush of arrivals pass, but not for ever: what was accepted must get done."""
        loop = asyncio.get_running_loop()
        since = loop.time()
        while not self._stopping:  # clocks and counts ring no bell
            left = since + self._courtesy.pause - loop.time()
            if self._courtesy.rushed and self._in_hand:
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

    async def _gather(self) -> None:
        """
        Let the newest batch get done first, if that is soon and nothing was left to claim.

        A batch costs as much as some ten messages before it has any: several small ones that are
        on their way at once only keep each other waiting. What comes meanwhile is the next.
        """
        if self._newest is not None and not self._more:
            await asyncio.wait([self._newest], timeout=self._company)

    def _finished(self, task: asyncio.Task[None]) -> None:
        del self._in_hand[task]
        self._room.release()
        if self._undecided:
            self.notify()

    async def _claim(self) -> Handful:
        nothing = Handful([], more=False, undecided=False)
        if self._stopping:
            return nothing
        try:
            small = self._courtesy.rushed or self._away
            batch = min(self._batch, SMALL) if small else self._batch
            handful = await asyncio.to_thread(self._inbox.take, self._clock(), batch)
        except StoreError as error:
            _log.warning("no messages claimed: %s", error)
            await asyncio.sleep(_PAUSE)
            return nothing
        self._undecided = handful.undecided
        return handful

    async def _rest(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._alarm.rest(self._clock())):
                await self._news.wait()

    async def _work(self, claimed: Sequence[Claimed]) -> None:
        began = asyncio.get_running_loop().time()
        open_ = {each.message_id: each.attempts for each in claimed}
        reached = False
        try:
            async with aclosing(self._apply(claimed)) as given:
                async for outcomes in given:
                    reached |= any(each.failure is not Failure.TRANSIENT for each in outcomes)
                    await self._finish(outcomes, open_)
        except Exception as error:  # noqa: BLE001  # whatever it is, these must be tried again
            _log.error(
                "applying %d messages failed: %s", len(claimed), type(error).__name__
            )  # a traceback may quote the message
        unknown = [_unknown(message_id) for message_id in open_]
        self._away = 0 if reached or unknown else self._away + 1
        await self._finish(unknown, open_)
        self._courtesy.worked(asyncio.get_running_loop().time() - began)

    async def _finish(self, outcomes: Sequence[Outcome], open_: dict[int, int]) -> None:
        """Settle those of the open messages; they are given with their attempts."""
        known = [self._dated(e, open_[e.message_id]) for e in outcomes if e.message_id in open_]
        if known:
            await self._settle(known)
        for each in known:
            open_.pop(each.message_id, None)

    def _dated(self, outcome: Outcome, attempts: int) -> Outcome:
        """Set the time of the next attempt where the outcome leaves it to the policy."""
        if outcome.event is not Event.POSTPONED:
            return outcome
        if outcome.retry_at is None:
            delay = self._policy.delay(attempts, self._random)
            outcome = replace(outcome, retry_at=self._clock() + round(delay * 1000))
        self._alarm.note(outcome.retry_at or 0)
        return outcome

    async def _settle(self, outcomes: Sequence[Outcome]) -> None:
        """Write the outcomes down, however long the database is away."""
        while True:
            try:
                settled = await asyncio.to_thread(self._inbox.settle, outcomes, self._clock())
            except StoreUnavailable as error:
                _log.warning("%d outcomes not written down yet: %s", len(outcomes), error)
                await asyncio.sleep(_PAUSE)
                continue
            if settled.moved_up or any(each.event is Event.POSTPONED for each in outcomes):
                self.notify()
            return

    async def _keep_leases(self) -> None:
        """Extend what is in hand, and queue again what the dead have left."""
        while True:
            await asyncio.sleep(self._inbox.lease / 3000)
            ids = [each.message_id for batch in self._in_hand.values() for each in batch]
            try:
                await asyncio.to_thread(self._inbox.extend, ids, self._clock())
                if await asyncio.to_thread(self._inbox.reclaim, self._clock()):
                    self.look_around()
            except StoreError as error:
                _log.warning("leases not extended: %s", error)


def _unknown(message_id: int) -> Outcome:
    return Outcome(message_id, Event.POSTPONED, Failure.AMBIGUOUS, "no-outcome")


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
