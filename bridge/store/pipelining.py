"""
Several statements of a transaction in one message to PostgreSQL.

Loaded with the driver, which an installation on SQLite does without.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import psycopg
from psycopg.generators import send
from typing_extensions import override


class _AtOnce(psycopg.Pipeline):
    """
    A pipeline that is sent as a whole, with its Sync as the last message.

    psycopg sends each statement by itself and a Flush behind the Sync. The server starts its timer
    for idle transactions at a Sync only, and stops it at any other message: a client that is
    stopped between two of them would keep its locks.
    """

    @override
    def _communicate_gen(self) -> Iterator[Any]:  # type: ignore[override]
        yield from ()  # all at the end

    @override
    def _exit_gen(self) -> Iterator[Any]:  # type: ignore[override]
        self._enqueue_sync()
        try:
            while self.command_queue:
                self.command_queue.popleft()()
            yield from send(self.pgconn)
        finally:
            yield from self._fetch_gen(flush=False)


def pipeline(driver: Any) -> AbstractContextManager[Any]:
    """Send what is executed within without waiting; the answers are there at the end."""
    driver._pipeline = _AtOnce(driver)  # noqa: SLF001  # else it makes one of its own class
    made: AbstractContextManager[Any] = driver.pipeline()
    return made
