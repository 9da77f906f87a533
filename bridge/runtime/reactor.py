"""
Twisted's reactor on asyncio's loop, without what Twisted does around each event for its own log.

Everything here logs by structlog; to say to Twisted's log whose turn it is costs as much as
to read a frame. Errors are caught where they always were.
"""

from asyncio import AbstractEventLoop
from typing import Any

from twisted.internet.asyncioreactor import AsyncioSelectorReactor
from twisted.internet.interfaces import IReadDescriptor
from twisted.internet.main import installReactor
from typing_extensions import override


class QuietReactor(AsyncioSelectorReactor):
    """Reads without telling the log first."""

    @override
    def addReader(self, reader: IReadDescriptor) -> None:
        watched: dict[Any, int] = self._readers
        known = reader in watched
        super().addReader(reader)  # type: ignore[no-untyped-call]
        if not known and (number := watched.get(reader)) is not None:
            self._asyncioEventloop.add_reader(number, self._readOrWrite, reader, True)


def install(loop: AbstractEventLoop) -> None:
    """Make it the process's reactor."""
    installReactor(QuietReactor(loop))  # type: ignore[no-untyped-call]
