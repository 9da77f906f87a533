"""
Threads for frames that take long to judge, so that other connections are answered meanwhile.

These are large frames, frames for which the database is asked, and those of definitions with hooks.
Frames behind one on its own connection wait for it: the order of a connection is kept.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor

from twisted.internet.defer import Deferred

from bridge.intake.handler import IntakeHandler
from bridge.workers.offload import LARGE
from mllp.contract import Peer, Tell
from mllp.framing import Frame
from mllp.telling import promised


class FrameOffload:
    """Stands before the handler of a listener."""

    def __init__(
        self,
        handler: IntakeHandler,
        threads: Executor,
        *,
        least: int = LARGE,
        asks: Callable[[bytes], bool] | None = None,
        asking: Executor | None = None,
        hooks: Executor | None = None,
    ) -> None:
        """
        Judge frames of `least` bytes and more in `threads`, and others that `asks` names.

        Those go to `asking`, where it is given: they wait for no large one. Frames of definitions
        with hooks go to `hooks`, so that no other listener waits for a hook.
        """
        self._handler = handler
        self._threads = threads
        self._least = least
        self._asks = asks
        self._asking = asking or threads
        self._hooks = hooks or threads
        self._latest: dict[int, asyncio.Future[None]] = {}

    def __call__(self, frame: Frame, peer: Peer) -> Deferred[Sequence[bytes]]:
        """Answer a frame; those of one connection are stored in their order."""
        return promised(self.direct, frame, peer)

    def direct(self, frame: Frame, peer: Peer, tell: Tell) -> None:
        """Answer a frame, as a call does, by telling."""
        straight = peer.connection_id not in self._latest
        if straight and not self._takes_long(frame):  # nearly always
            self._handler.direct(frame, peer, tell)
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
            answered = await self.hand_over(frame, peer)
            return await answered.asFuture(loop)
        finally:
            over.set_result(None)
            if self._latest.get(connection) is over:
                del self._latest[connection]

    async def hand_over(self, frame: Frame, peer: Peer) -> Deferred[Sequence[bytes]]:
        """Judge a frame, in a thread where that takes long; it is on its way to be stored then."""
        if not self._takes_long(frame):
            return self._handler(frame, peer)
        loop = asyncio.get_running_loop()
        threads = self._threads_for(frame)
        prepared = await loop.run_in_executor(threads, self._handler.prepare, frame, peer)
        answered: Deferred[Sequence[bytes]] = Deferred()
        self._handler.keep(frame, prepared, answered.callback)
        return answered

    def _takes_long(self, frame: Frame) -> bool:
        payload, asks = frame.payload, self._asks
        if self._handler.takes_long or len(payload) >= self._least:
            return True
        return asks is not None and asks(payload)

    def _threads_for(self, frame: Frame) -> Executor:
        if self._handler.takes_long:
            return self._hooks
        return self._threads if len(frame.payload) >= self._least else self._asking
