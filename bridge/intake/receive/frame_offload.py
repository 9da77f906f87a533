"""Offloading of slow frames: they are evaluated on threads.

A frame is slow if it is large, if it needs a database lookup, if a definition of its listener has
hooks, or if the patterns of the definition take long on it. Other connections are answered
meanwhile. Later frames of the same connection wait: their order is kept.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from bridge.intake.receive.handler import IntakeHandler
from bridge.workers.offload import LARGE
from mappings.language.patterns import PatternsTakeLong, bounded_patterns
from mllp.contract import Peer, ReplyCallback
from mllp.framing import Frame

_WaitingFrame = tuple[Frame, Peer, ReplyCallback]


class FrameOffload:
    """Passes frames to a listener's handler; slow frames are evaluated on threads."""

    def __init__(
        self,
        handler: IntakeHandler,
        threads: Executor,
        *,
        min_bytes: int = LARGE,
        needs_lookup: Callable[[bytes], bool] | None = None,
        lookup_threads: Executor | None = None,
        hook_threads: Executor | None = None,
    ) -> None:
        """
        Evaluate frames of at least `min_bytes`, and frames with `needs_lookup`, in `threads`.

        Frames with `needs_lookup` use `lookup_threads` if given: they do not wait for large frames.
        Frames of definitions with hooks, and those with slow patterns, use `hook_threads`: they do
        not delay other listeners.
        """
        self._handler = handler
        self._threads = threads
        self._min_bytes = min_bytes
        self._needs_lookup = needs_lookup
        self._lookup_threads = lookup_threads or threads
        self._hook_threads = hook_threads or threads
        self._waiting: dict[int, deque[_WaitingFrame]] = {}  # of connections with a slow frame
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self, frame: Frame, peer: Peer, reply: ReplyCallback) -> None:
        """Handle a frame; frames of one connection are stored in their order."""
        waiting = self._waiting.get(peer.connection_id)
        if waiting is not None:
            waiting.append((frame, peer, reply))
        elif not self._handle_now(frame, peer, reply):
            self._waiting[peer.connection_id] = deque()
            task = asyncio.ensure_future(self._handle_in_order(frame, peer, reply))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def submit(self, frame: Frame, peer: Peer) -> Deferred[Sequence[bytes]]:
        """
        Evaluate a frame, on a thread if it is slow; return its future replies once it is submitted
        to the store.
        """
        answered: Deferred[Sequence[bytes]] = Deferred()
        if not self._handle_now(frame, peer, answered.callback):
            await self._submit_slow(frame, peer, answered.callback)
        return answered

    async def _handle_in_order(self, frame: Frame, peer: Peer, reply: ReplyCallback) -> None:
        waiting = self._waiting[peer.connection_id]
        try:
            await self._handle_slow(frame, peer, reply)
            while waiting:
                following = waiting.popleft()
                try:
                    done = self._handle_now(*following)
                except Exception:  # noqa: BLE001  # the connection closes without an answer
                    following[-1](Failure())  # type: ignore[no-untyped-call]
                    done = True
                if not done:
                    await self._handle_slow(*following)
        finally:
            del self._waiting[peer.connection_id]

    async def _handle_slow(self, frame: Frame, peer: Peer, reply: ReplyCallback) -> None:
        """
        Evaluate a frame on a thread, and submit it to the store.

        A large one is also awaited: the store writes it concurrently with later frames.
        """
        answered: Deferred[Sequence[bytes]] = Deferred()
        answered.addCallbacks(reply, reply)
        try:
            await self._submit_slow(frame, peer, answered.callback)
        except Exception:  # noqa: BLE001  # the connection closes without an answer
            answered.errback(Failure())  # type: ignore[no-untyped-call]
        if len(frame.payload) >= self._min_bytes:
            await answered.asFuture(asyncio.get_running_loop())

    def _handle_now(self, frame: Frame, peer: Peer, reply: ReplyCallback) -> bool:
        """Handle a frame unless it is slow; return whether it was handled."""
        if self._takes_long(frame):
            return False
        try:
            with bounded_patterns():
                self._handler(frame, peer, reply)
        except PatternsTakeLong:  # nothing was stored
            return False
        return True

    async def _submit_slow(self, frame: Frame, peer: Peer, reply: ReplyCallback) -> None:
        loop = asyncio.get_running_loop()
        threads = self._threads_for(frame)
        prepared = await loop.run_in_executor(threads, self._handler.prepare, frame, peer)
        self._handler.store(frame, prepared, reply)

    def _takes_long(self, frame: Frame) -> bool:
        is_large = len(frame.payload) >= self._min_bytes
        return self._handler.takes_long or is_large or self._reads_database(frame)

    def _reads_database(self, frame: Frame) -> bool:
        return self._needs_lookup is not None and self._needs_lookup(frame.payload)

    def _threads_for(self, frame: Frame) -> Executor:
        if not self._handler.takes_long:
            if len(frame.payload) >= self._min_bytes:
                return self._threads
            if self._reads_database(frame):
                return self._lookup_threads
        return self._hook_threads  # for hooks and slow patterns
