"""Replies that become ready together leave together: one write for each connection.

Who keeps many frames in one commit answers for all of them at once. A write for each reply is a
call of the system for each, and wakes its reader as often; see `Bundle`.
"""

from types import TracebackType
from typing import Protocol


class Flushes(Protocol):
    """Something that can write what is ready."""

    def flush_ready(self) -> None:
        """Write what may leave, and go on."""


class Bundle:
    """
    Within it (`with`), whoever has replies ready waits; all write when it ends.

    Belongs on the reactor's thread. Those within one that is open already end with that one.
    One that cannot write keeps none from it: what it raised is raised when all have written.
    """

    __slots__ = ("_open", "_waiting")

    def __init__(self) -> None:
        self._open = False
        self._waiting: dict[Flushes, None] = {}

    def takes(self, ready: Flushes) -> bool:
        """Say whether it is open; if so, `ready` is flushed at its end."""
        if self._open:
            self._waiting[ready] = None
        return self._open

    def __enter__(self) -> None:
        self._open = True

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._open = False
        waiting, self._waiting = self._waiting, {}
        failed: Exception | None = None
        for each in waiting:
            try:
                each.flush_ready()
            except Exception as error:  # noqa: BLE001  # nobody else waits for their reply because of it
                failed = failed or error
        if failed is not None:
            raise failed


REPLIES = Bundle()
"""The process's own: its listeners share one reactor, and their messages one commit."""
