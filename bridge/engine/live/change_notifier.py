"""
Wake whoever waits for a change: readers of the feed, the release clock.

Says only "something changed", and of which kind where that is known; the waiter reads the
database again. Writers of other processes ring through PostgreSQL; whatever is missed, the
waiter's own poll notices.
"""

import asyncio
import threading
from collections.abc import Collection


class ChangeNotifier:
    """One bell for all waiters of this process; rung from any thread."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], frozenset[str]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0

    def notify(self, events: frozenset[str] = frozenset()) -> None:
        """
        Wake everybody but who waits for none of these events; none given: for whatever it may be.

        Harmless before anybody ever waited. To wake the loop for nobody would hold up the thread
        that rings, and that has more to say: whoever takes a bell later reads what it rang for.
        """
        if self._loop is None or self._loop.is_closed() or self._is_for_nobody(events):
            return
        if self._thread == threading.get_ident():
            self._wake(events)
        else:
            self._loop.call_soon_threadsafe(self._wake, events)

    def notification(self, without: Collection[str] = ()) -> asyncio.Future[None]:
        """
        Return a future that the next ring resolves, unless it tells of such events alone.

        Take it before reading the database, so that no change falls between.
        """
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting[future] = frozenset(without)
        future.add_done_callback(lambda done: self._waiting.pop(done, None))
        return future

    def _is_for_nobody(self, events: frozenset[str]) -> bool:
        return bool(events) and all(events <= each for each in tuple(self._waiting.values()))

    def _wake(self, events: frozenset[str]) -> None:
        for future, without in tuple(self._waiting.items()):
            if not future.done() and not (events and events <= without):
                future.set_result(None)


async def wait_notified(notification: asyncio.Future[None], seconds: float) -> bool:
    """Wait for the bell, at most so long; tell whether it rang."""
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await notification
    except TimeoutError:
        return False
    return True
