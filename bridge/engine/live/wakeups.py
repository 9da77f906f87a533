"""
Wake whoever waits for a change: readers of the feed, the release clock.

Says only "something changed", and of which kind where that is known; the waiter reads the
database again. Writers of other processes ring through PostgreSQL; whatever is missed, the
waiter's own poll notices.
"""

import asyncio
from collections.abc import Collection


class Wakeups:
    """One bell for all waiters of this process; rung from any thread."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], frozenset[str]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def ring(self, events: frozenset[str] = frozenset()) -> None:
        """
        Wake everybody but who waits for none of these events; none given: for whatever it may be.

        Harmless before anybody ever waited.
        """
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake, events)

    def bell(self, without: Collection[str] = ()) -> asyncio.Future[None]:
        """
        Return a future that the next ring resolves, unless it tells of such events alone.

        Take it before reading the database, so that no change falls between.
        """
        self._loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting[future] = frozenset(without)
        future.add_done_callback(lambda done: self._waiting.pop(done, None))
        return future

    def _wake(self, events: frozenset[str]) -> None:
        for future, without in tuple(self._waiting.items()):
            if not future.done() and not (events and events <= without):
                future.set_result(None)


async def heard(bell: asyncio.Future[None], seconds: float) -> bool:
    """Wait for the bell, at most so long; tell whether it rang."""
    await asyncio.wait({bell}, timeout=max(0.0, seconds))
    rang = bell.done() and not bell.cancelled()
    bell.cancel()
    return rang
