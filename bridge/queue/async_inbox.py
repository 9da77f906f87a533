"""
The inbox as the worker's event loop uses it: a thread of the intake's pool does the work.

Where the database offers short work on the loop (`bridge.store.on_loop`), the loop does what
concerns few messages itself.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from bridge.executors import Threads
from bridge.queue.inbox import Handful, Inbox
from bridge.queue.settlements import Settled
from bridge.queue.work import Outcome
from bridge.store.errors import Busy
from bridge.store.on_loop.short_work import SHORT

Result = TypeVar("Result")


class AsyncInbox:
    """Claims and settles for one worker; its methods belong on the event loop."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._short_work = inbox.short_work
        self._more = False  # whether the last claim left what could have been claimed

    async def take(self, now: int, limit: int) -> Handful:
        """Claim up to `limit` messages, fewer where that is sooner. Raises StoreError."""
        claim = partial(self._inbox.take_bare, now)
        return await self._whole(await self._do(claim, limit, is_short=not self._more))

    async def settle(self, outcomes: Sequence[Outcome], now: int) -> Settled:
        """Write outcomes down. Raises StoreError."""

        def settle(_limit: int) -> Settled:
            return self._inbox.settle(outcomes, now)

        return await self._do(settle, 0, is_short=_are_short(outcomes))

    async def turn_over(self, outcomes: Sequence[Outcome], now: int, limit: int) -> Handful:
        """Write outcomes down and claim, in one transaction, as `take` does. Raises StoreError."""
        turn_over = partial(self._inbox.turn_over, outcomes, now)
        is_short = not self._more and _are_short(outcomes)
        _, handful = await self._do(turn_over, limit, is_short=is_short)
        return await self._whole(handful)

    async def _whole(self, handful: Handful) -> Handful:
        self._more = handful.more
        if all(each.payload for each in handful.messages):
            return handful
        return await Threads.INTAKE.run(self._inbox.whole, handful)

    async def _do(self, work: Callable[[int], Result], limit: int, *, is_short: bool) -> Result:
        """Do work that may claim up to `limit` messages, or fewer where it is short."""
        if is_short and self._short_work is not None:
            try:
                return self._short_work.do(partial(work, min(limit, SHORT)))
            except Busy:  # nothing was claimed; outcomes that were written stay written
                pass
        return await Threads.INTAKE.run(work, limit)


def _are_short(outcomes: Sequence[Outcome]) -> bool:
    brief = all(each.news is None or each.news.brief for each in outcomes)
    return brief and len(outcomes) <= SHORT
