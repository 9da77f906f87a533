"""
Wake whoever waits for a change: readers of the feed, the release clock.

Says only "something changed"; the waiter reads the database again. Writers of other processes
ring through PostgreSQL; whatever is missed, the waiter's own poll notices.
"""

import asyncio


class Wakeups:
    """One bell for all waiters of this process; rung from any thread."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def ring(self) -> None:
        """Wake everybody; harmless before anybody ever waited."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def bell(self) -> asyncio.Future[None]:
        """
        Return a future that the next ring resolves.

        Take it before reading the database, so that no change falls between.
        """
        self._loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        return future

    def _wake(self) -> None:
        for future in tuple(self._waiting):
            if not future.done():
                future.set_result(None)


async def heard(bell: asyncio.Future[None], seconds: float) -> bool:
    """Wait for the bell, at most so long; tell whether it rang."""
    await asyncio.wait({bell}, timeout=max(0.0, seconds))
    rang = bell.done() and not bell.cancelled()
    bell.cancel()
    return rang
