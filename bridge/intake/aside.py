"""
Frames that take long to judge, large ones and those for which the database is asked, are judged
in a thread, so that others are answered meanwhile.

What comes behind one on its own connection waits for it: nobody is overtaken. Ordinary frames on
other connections go straight on.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor

from twisted.internet.defer import Deferred

from bridge.intake.handler import IntakeHandler
from mllp.contract import Peer, Tell
from mllp.framing import Frame
from mllp.telling import promised

LARGE = 256 * 2**10
"""Bytes from which a frame takes longer to judge than to hand to a thread."""


class Aside:
    """Stands before the handler of a listener."""

    def __init__(
        self,
        handler: IntakeHandler,
        threads: Executor,
        *,
        least: int = LARGE,
        asks: Callable[[bytes], bool] | None = None,
        asking: Executor | None = None,
    ) -> None:
        """
        Judge frames of `least` bytes and more in `threads`, and others that `asks` names.

        Those go to `asking`, where it is given: they wait for no large one.
        """
        self._handler = handler
        self._threads = threads
        self._least = least
        self._asks = asks
        self._asking = asking or threads
        self._latest: dict[int, asyncio.Future[None]] = {}

    def __call__(self, frame: Frame, peer: Peer) -> Deferred[Sequence[bytes]]:
        """Answer a frame; those of one connection are stored in their order."""
        return promised(self.direct, frame, peer)

    def direct(self, frame: Frame, peer: Peer, tell: Tell) -> None:
        """Answer a frame, as a call does, by telling."""
        straight = peer.connection_id not in self._latest
        if straight and self._handler.takes_at_once(frame, peer, tell):  # nearly always
            return
        if straight and not self._takes_long(frame):
            self._handler.judge(frame, peer, tell)
        else:
            answered = Deferred.fromFuture(asyncio.ensure_future(self._in_turn(frame, peer)))
            answered.addCallbacks(tell, tell)

    async def _in_turn(self, frame: Frame, peer: Peer) -> Sequence[bytes]:
        loop, connection = asyncio.get_running_loop(), peer.connection_id
        before = self._latest.get(connection)
        over: asyncio.Future[None] = loop.create_future()
        self._latest[connection] = over
        try:
            if before is not None:
                await before
            answered = await self._handed(frame, peer)
            return await answered.asFuture(loop)
        finally:
            over.set_result(None)
            if self._latest.get(connection) is over:
                del self._latest[connection]

    async def _handed(self, frame: Frame, peer: Peer) -> Deferred[Sequence[bytes]]:
        if not self._takes_long(frame):
            return self._handler(frame, peer)
        loop = asyncio.get_running_loop()
        large = len(frame.payload) >= self._least
        threads = self._threads if large else self._asking
        prepared = await loop.run_in_executor(threads, self._handler.prepare, frame, peer)
        answered: Deferred[Sequence[bytes]] = Deferred()
        self._handler.keep(frame, prepared, answered.callback)
        return answered

    def _takes_long(self, frame: Frame) -> bool:
        payload, asks = frame.payload, self._asks
        return len(payload) >= self._least or (asks is not None and asks(payload))
