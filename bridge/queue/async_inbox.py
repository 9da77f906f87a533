"""
The inbox as an event loop uses it: little is done in the loop's own turn, more in a thread.

See `bridge.store.haste`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from bridge.executors import Threads
from bridge.queue.inbox import Handful, Inbox
from bridge.queue.settlements import Settled
from bridge.queue.work import Outcome
from bridge.store.errors import Busy
from bridge.store.haste import LITTLE, Haste

Answer = TypeVar("Answer")


class AsyncInbox:
    """Claims and settles for one worker; its methods belong on the event loop."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._haste = Haste(inbox.writing)
        self._more = False  # whether the last claim left what could have been claimed

    async def take(self, now: int, limit: int) -> Handful:
        """Claim up to `limit` messages, fewer where that is sooner. Raises StoreError."""
        little = partial(self._inbox.take_bare, now, min(limit, LITTLE))
        more = partial(self._inbox.take_bare, now, limit)
        return await self._whole(await self._do(little, more, is_little=not self._more))

    async def settle(self, outcomes: Sequence[Outcome], now: int) -> Settled:
        """Write outcomes down. Raises StoreError."""
        work = partial(self._inbox.settle, outcomes, now)
        return await self._do(work, work, is_little=_is_little(outcomes))

    async def turn_over(self, outcomes: Sequence[Outcome], now: int, limit: int) -> Handful:
        """Write outcomes down and claim, in one transaction, as `take` does. Raises StoreError."""
        little = partial(self._inbox.turn_over, outcomes, now, min(limit, LITTLE))
        more = partial(self._inbox.turn_over, outcomes, now, limit)
        is_little = not self._more and _is_little(outcomes)
        _, handful = await self._do(little, more, is_little=is_little)
        return await self._whole(handful)

    async def _whole(self, handful: Handful) -> Handful:
        self._more = handful.more
        if all(each.payload for each in handful.messages):
            return handful
        return await Threads.INTAKE.run(self._inbox.whole, handful)

    async def _do(
        self, little: Callable[[], Answer], more: Callable[[], Answer], *, is_little: bool
    ) -> Answer:
        if is_little:
            try:
                return self._haste.do(little)
            except Busy:  # nothing was taken, and what was settled stays so
                pass
        return await Threads.INTAKE.run(more)


def _is_little(outcomes: Sequence[Outcome]) -> bool:
    brief = all(each.news is None or each.news.brief for each in outcomes)
    return brief and len(outcomes) <= LITTLE
