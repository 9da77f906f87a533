"""
Several statements of a transaction in one message to PostgreSQL.

Loaded with the driver, which an installation on SQLite does without.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import psycopg
from typing_extensions import override


class _ToTheSync(psycopg.Pipeline):
    """
    A pipeline whose last message is its Sync.

    psycopg sends a Flush behind it. The server stops its timer for idle transactions at any
    message, and starts it at a Sync only: a client that is stopped then would keep its locks.
    """

    @override
    def _exit_gen(self) -> Iterator[Any]:  # type: ignore[override]
        try:
            self._enqueue_sync()
            yield from self._communicate_gen()
        finally:
            yield from self._fetch_gen(flush=False)


def pipeline(driver: Any) -> AbstractContextManager[Any]:
    """Send what is executed within without waiting; the answers are there at the end."""
    driver._pipeline = _ToTheSync(driver)  # noqa: SLF001  # else it makes one of its own class
    made: AbstractContextManager[Any] = driver.pipeline()
    return made
