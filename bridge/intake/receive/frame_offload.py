"""Offloading of slow frames: they are evaluated on threads.

Slow frames are large ones, ones that need a database lookup, and ones for definitions with hooks.
Other connections are answered meanwhile. Later frames of the same connection wait: their order is
kept.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor

from twisted.internet.defer import Deferred

from bridge.intake.receive.handler import IntakeHandler
from bridge.workers.offload import LARGE
from mllp.contract import Peer, ReplyCallback, as_deferred
from mllp.framing import Frame


class FrameOffload:
    """Passes frames to a listener's handler; slow frames are evaluated on threads."""

    def __init__(
        self,
        handler: IntakeHandler,
        threads: Executor,
        *,
        least: int = LARGE,
        needs_lookup: Callable[[bytes], bool] | None = None,
        lookup_threads: Executor | None = None,
        hooks: Executor | None = None,
    ) -> None:
        """
        Evaluate frames of at least `least` bytes in `threads`, and frames with `needs_lookup` too.

        Frames with `needs_lookup` use `lookup_threads` if given: they do not wait for large frames.
        Frames of definitions with hooks use `hooks`: a hook does not delay other listeners.
        """
        self._handler = handler
        self._threads = threads
        self._least = least
        self._needs_lookup = needs_lookup
        self._lookup_threads = lookup_threads or threads
        self._hooks = hooks or threads
        self._latest: dict[int, asyncio.Future[None]] = {}

    def __call__(self, frame: Frame, peer: Peer, reply: ReplyCallback) -> None:
        """Handle a frame; frames of one connection are stored in their order."""
        straight = peer.connection_id not in self._latest
        if straight and not self._takes_long(frame):
            self._handler(frame, peer, reply)
        else:
            answered = Deferred.fromFuture(asyncio.ensure_future(self._in_turn(frame, peer)))
            answered.addCallbacks(reply, reply)

    async def _in_turn(self, frame: Frame, peer: Peer) -> Sequence[bytes]:
        loop, connection = asyncio.get_running_loop(), peer.connection_id
        before = self._latest.get(connection)
        over: asyncio.Future[None] = loop.create_future()
        self._latest[connection] = over
        try:
            if before is not None:
                await before
            answered = await self.submit(frame, peer)
            return await answered.asFuture(loop)
        finally:
            over.set_result(None)
            if self._latest.get(connection) is over:
                del self._latest[connection]

    async def submit(self, frame: Frame, peer: Peer) -> Deferred[Sequence[bytes]]:
        """
        Evaluate a frame, on a thread if it is slow; return its future replies once it is submitted
        to the store.
        """
        if not self._takes_long(frame):
            return as_deferred(self._handler, frame, peer)
        loop = asyncio.get_running_loop()
        threads = self._threads_for(frame)
        prepared = await loop.run_in_executor(threads, self._handler.prepare, frame, peer)
        answered: Deferred[Sequence[bytes]] = Deferred()
        self._handler.store(frame, prepared, answered.callback)
        return answered

    def _takes_long(self, frame: Frame) -> bool:
        payload, needs_lookup = frame.payload, self._needs_lookup
        if self._handler.takes_long or len(payload) >= self._least:
            return True
        return needs_lookup is not None and needs_lookup(payload)

    def _threads_for(self, frame: Frame) -> Executor:
        if self._handler.takes_long:
            return self._hooks
        return self._threads if len(frame.payload) >= self._least else self._lookup_threads
