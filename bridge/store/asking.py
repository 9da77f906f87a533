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
from psycopg.pq import ConnStatus, ExecStatus, Format

_NAME = b"asked"

Told = Callable[[Sequence[bytes] | psycopg.Error], object]
"""Takes the first column of all rows, in the server's binary form, or what went wrong."""


class Asking:
    """
    A connection for one question at a time; each is a transaction by itself.

    Made where one may wait; all else belongs on the loop's thread.
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
        self._socket = -1
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
        self._socket = self._server.socket  # a lost one has no number any more
        loop.add_reader(self._socket, self._heard)

    def ask(self, values: Sequence[bytes], told: Told) -> None:
        """Send values in binary form; `told` is called once, on the loop, later than this call."""
        assert self._loop is not None  # noqa: S101  # whoever asks has seen that it is open
        self._told = told
        try:
            binary = [Format.BINARY] * len(values)
            self._server.send_query_prepared(_NAME, values, binary, Format.BINARY)
            self._send()
        except psycopg.Error as error:
            self._loop.call_soon(self._tell, error)

    def close(self) -> None:
        """End. Nobody is told of anything any more."""
        self._told = None
        self._forget()

    def _send(self) -> None:
        if self._server.flush() and self._loop is not None:  # the socket takes no more for now
            self._loop.add_writer(self._socket, self._send_more)

    def _send_more(self) -> None:
        assert self._loop is not None  # noqa: S101  # it has called
        self._loop.remove_writer(self._socket)
        try:
            self._send()
        except psycopg.Error as error:
            self._tell(error)

    def _heard(self) -> None:
        try:
            self._server.consume_input()
            if self._told is None or self._server.is_busy():
                return
            result = self._server.get_result()
            while self._server.get_result() is not None:
                pass
        except psycopg.Error as error:
            self._tell(error)
            return
        if result is None or result.status != ExecStatus.TUPLES_OK:
            self._tell(error_from_result(result) if result else psycopg.OperationalError("none"))
        else:
            self._tell([result.get_value(row, 0) for row in range(result.ntuples)])

    def _tell(self, answer: Sequence[bytes] | psycopg.Error) -> None:
        if self._server.status != ConnStatus.OK:
            self._forget()
        told, self._told = self._told, None
        if told is not None:
            told(answer)

    def _forget(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.remove_reader(self._socket)
            loop.remove_writer(self._socket)
        self._driver.close()


def _numbered(statement: str) -> bytes:
    """Give a statement as the server itself takes it."""
    first, *others = statement.split("%b")
    places = count(1)
    return "".join([first, *(f"${next(places)}{each}" for each in others)]).encode()
