"""
One connection of the driver itself, kept for a question that is asked all the time.

Each answer is one statement's, and a transaction of its own. `Database.reader` makes one; used by
one thread at a time.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from bridge.store.errors import StoreUnavailable
from bridge.store.faults import driver_errors, fault, lost_connection
from bridge.store.steps import Among

T = TypeVar("T")


class Reader:
    """
    Asks about the rows of some keys. `at_hand`: the database is a file of this machine.

    An answer from such a file takes less than to hand the question to a thread and back.
    """

    def __init__(self, connect: Callable[[], Any], *, at_hand: bool) -> None:
        self.at_hand = at_hand
        self._connect = connect
        self._driver: Any = None
        self._ended = False

    def rows(self, of: Among, keys: Sequence[str], **others: Any) -> list[tuple[Any, ...]]:
        """Give the rows of an answer. Errors are as for `Database.read`."""
        return self._answered(lambda: self._ask(of, keys, others))

    def ping(self) -> None:
        """Let the database answer a query without tables. Errors are as for `Database.read`."""
        self._answered(lambda: self._opened().execute("SELECT 1").fetchall())

    def _answered(self, ask: Callable[[], T]) -> T:
        kept = self._driver is not None
        try:
            return ask()
        except driver_errors() as error:
            self._drop()
            if self._ended or not kept or not lost_connection(error):
                raise fault(error) from None  # the driver's words may quote the row
        try:  # the server was started anew since the last question
            return ask()
        except driver_errors() as error:
            self._drop()
            raise fault(error) from None

    def mark(self) -> int | None:
        """Give what each commit of anybody else changes; None where the database does not say."""
        if not self.at_hand:
            return None
        try:
            found: int = self._opened().execute("PRAGMA data_version").fetchone()[0]
        except driver_errors() as error:
            self._drop()
            raise fault(error) from None
        return found

    def close(self) -> None:
        """End the connection for good: who asks meanwhile, or later, finds it unavailable."""
        self._ended = True
        self._drop()

    def _drop(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.close()

    def _ask(self, of: Among, keys: Sequence[str], others: dict[str, Any]) -> list[tuple[Any, ...]]:
        asked = {of.name: json.dumps(list(keys)) if self.at_hand else list(keys), **others}
        statement = of.sqlite if self.at_hand else of.postgres
        found: list[tuple[Any, ...]] = self._opened().execute(statement, asked).fetchall()
        return found

    def _opened(self) -> Any:
        driver = self._driver
        if driver is None and not self._ended:
            driver = self._driver = self._connect()
            if not self.at_hand:
                driver.autocommit = True
        if driver is None or self._ended:  # maybe while it was made
            self._drop()
            raise StoreUnavailable("closed")
        return driver
