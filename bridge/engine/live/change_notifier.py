"""
Notifies waiters of a change: readers of the feed, event streams, the release scheduler.

A notification says only that something changed, and the kinds of events if they are known. The
waiter then reads the database. Writers of other processes notify through PostgreSQL. A waiter also
polls, so a missed notification only delays it.
"""

import asyncio
import threading
from collections.abc import Collection


class ChangeNotifier:
    """Notifies all waiters of this process; thread-safe."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], frozenset[str]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0

    def notify(self, events: frozenset[str] = frozenset()) -> None:
        """
        Wake all waiters except those that exclude all of these events. Without events, wake all.

        Waking the event loop costs the calling thread time, so it is skipped if nobody waits. A
        waiter that registers later reads the change from the database.
        """
        if self._loop is None or self._loop.is_closed():
            return
        if events and all(events <= without for without in tuple(self._waiting.values())):
            return
        if self._thread == threading.get_ident():
            self._wake(events)
        else:
            self._loop.call_soon_threadsafe(self._wake, events)

    def notification(self, without: Collection[str] = ()) -> asyncio.Future[None]:
        """
        Return a future that the next notification resolves, unless all its events are in `without`.

        Call it before reading the database, so that no change is missed in between.
        """
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting[future] = frozenset(without)
        future.add_done_callback(lambda done: self._waiting.pop(done, None))
        return future

    def _wake(self, events: frozenset[str]) -> None:
        for future, without in tuple(self._waiting.items()):
            if not future.done() and not (events and events <= without):
                future.set_result(None)


async def wait_notified(notification: asyncio.Future[None], seconds: float) -> bool:
    """Wait for a notification, at most so many seconds; tell whether it came."""
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await notification
    except TimeoutError:
        return False
    return True
