"""
One statement of PostgreSQL's that an event loop asks, without waiting for the answer.

To hand a statement to a thread and to hear of it again are two changes of the interpreter, which
take as long as a short statement. Here the driver's connection is one more socket of the loop.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import psycopg
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, Format, TransactionStatus

from bridge.store import postgres
from bridge.store.faults import driver_errors, fault

_NAME = b"asked"

Told = Callable[[Sequence[bytes] | None], object]
"""Takes the first column of all rows, in the server's binary form; None: nobody knows."""


class Asking:
    """
    A connection for one question at a time; each is a transaction by itself.

    Made where one may wait; all else belongs on the loop's thread. Whatever goes wrong ends it.
    """

    def __init__(self, driver: Any, statement: str) -> None:
        """
        Take a connection that is in no transaction, and prepare a statement with `%b`s.

        Blocking. Raises the driver's errors.
        """
        self._driver = driver
        self._server = driver.pgconn
        self._loop: asyncio.AbstractEventLoop | None = None
        self._told: Told | None = None
        self._results: list[Any] = []
        self._socket = self._server.socket  # a lost one has no number any more
        result = self._server.prepare(_NAME, _numbered(statement))
        if result.status != ExecStatus.COMMAND_OK:
            raise error_from_result(result)
        self._server.nonblocking = 1

    @property
    def is_open(self) -> bool:
        """Whether the server can be asked, as far as is known."""
        return self._loop is not None

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hear of answers by a loop."""
        self._loop = loop
        loop.add_reader(self._socket, self._heard)

    def ask(self, values: Sequence[bytes], told: Told) -> None:
        """Send values in binary form; `told` is called once, on the loop, later than this call."""
        assert self._loop is not None  # noqa: S101  # whoever asks has seen that it is open
        self._told = told
        try:
            binary = [Format.BINARY] * len(values)
            self._server.send_query_prepared(_NAME, values, binary, Format.BINARY)
            self._send()
        except Exception:  # noqa: BLE001  # whoever asks is told in any case
            self._loop.call_soon(self.close)

    def close(self) -> None:
        """End; whoever still waits is told that nobody knows."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.remove_reader(self._socket)
            loop.remove_writer(self._socket)
        self._driver.close()
        self._tell(None)

    def _send(self) -> None:
        if self._server.flush() and self._loop is not None:  # the socket takes no more for now
            self._loop.add_writer(self._socket, self._send_more)

    def _send_more(self) -> None:
        assert self._loop is not None  # noqa: S101  # it has called
        self._loop.remove_writer(self._socket)
        try:
            self._send()
        except psycopg.Error:
            self.close()

    def _heard(self) -> None:
        """Take what has come of the answer: only its end says that it was committed."""
        try:
            self._server.consume_input()
            while self._told is not None and not self._server.is_busy():
                result = self._server.get_result()
                if result is None:
                    self._end()
                    return
                self._results.append(result)
        except psycopg.Error:
            self.close()

    def _end(self) -> None:
        results, self._results = self._results, []
        is_idle = self._server.transaction_status == TransactionStatus.IDLE
        if not is_idle or [each.status for each in results] != [ExecStatus.TUPLES_OK]:
            self.close()
            return
        self._tell([results[0].get_value(row, 0) for row in range(results[0].ntuples)])

    def _tell(self, answer: Sequence[bytes] | None) -> None:
        told, self._told = self._told, None
        if told is not None:
            told(answer)


def _numbered(statement: str) -> bytes:
    """Give a statement as the server itself takes it."""
    first, *others = statement.split("%b")
    places = count(1)
    return "".join([first, *(f"${next(places)}{each}" for each in others)]).encode()


def opened(connect: Callable[[], Any], statement: str) -> Asking:
    """Open a connection of its own for a statement. Blocking. Raises StoreError."""
    try:
        driver = connect()
        try:
            postgres.by_index_alone(driver)
            driver.autocommit = True
            return Asking(driver, statement)
        except BaseException:
            driver.close()
            raise
    except driver_errors() as error:
        raise fault(error) from None  # the driver's words may quote the row
