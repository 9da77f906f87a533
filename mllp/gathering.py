"""
The open connections of a server or a client, and the wait until the last one has ended.

Opens and closes none, except those that outstay the wait.
"""

from typing import Generic, Protocol, TypeVar

from twisted.internet.defer import Deferred, succeed

from mllp.contract import Clock
from mllp.deadline import Deadline


class Abortable(Protocol):
    """A connection, as far as this file is concerned."""

    def abort(self) -> None:
        """Close now."""


C = TypeVar("C", bound=Abortable)


class Gathering(Generic[C]):
    """A set of connections; `grace` is how many seconds they have to end by themselves."""

    def __init__(self, clock: Clock, grace: float) -> None:
        self._present: set[C] = set()
        self._waiting: list[Deferred[None]] = []
        self._deadline = Deadline(clock, grace, self._abort_all)

    def __len__(self) -> int:
        return len(self._present)

    def all(self) -> tuple[C, ...]:
        """Return them; they may come and go while you look."""
        return tuple(self._present)

    def add(self, connection: C) -> None:
        """Take note of a connection."""
        self._present.add(connection)

    def discard(self, connection: C) -> None:
        """Take note that it has ended."""
        self._present.discard(connection)
        if not self._present:
            self._deadline.stop()
            waiting, self._waiting = self._waiting, []
            for done in waiting:
                done.callback(None)

    def ended(self) -> Deferred[None]:
        """Fire when none is left; those that take longer than the grace are aborted."""
        if not self._present:
            return succeed(None)
        if not self._deadline.running:
            self._deadline.start()
        done: Deferred[None] = Deferred()
        self._waiting.append(done)
        return done

    def _abort_all(self) -> None:
        for connection in self.all():
            connection.abort()
