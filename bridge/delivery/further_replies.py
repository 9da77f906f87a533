"""
Further replies: what a receiver says about a message after its first reply.

Some receivers acknowledge a message when they have it, and again when they have processed it. The
second reply belongs to its delivery, whatever is in flight. If it is negative, the receiver did not
file the result, and a person must act: an exception is raised. Nothing is sent again.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from twisted.internet.defer import Deferred

from bridge.delivery.reply_policy import ReplyKind, read_reply
from bridge.executors import Threads
from bridge.queue.outbox import Outbox
from bridge.redaction import describe
from bridge.store.errors import StoreError
from mappings.hl7.acknowledgment import read_ack

MAX_KNOWN = 10_000
"""Control ids of messages that were sent, to find them without the database."""

NEGATIVE = frozenset({ReplyKind.AE, ReplyKind.AR, ReplyKind.CE, ReplyKind.CR})

_STOP_SECONDS = 5.0


async def nothing_to_store() -> object:
    """Do nothing: there are no outcomes that wait."""
    return None


class FurtherReplies:
    def __init__(self, outbox: Outbox, destination: str, clock: Callable[[], int]) -> None:
        """`clock` is in milliseconds."""
        self._outbox = outbox
        self._destination = destination
        self._clock = clock
        self._log = structlog.get_logger("courier").bind(destination=destination)
        self._sent: OrderedDict[str, int] = OrderedDict()
        self._tasks: set[asyncio.Task[bool]] = set()
        self.store_outcomes: Callable[[], Awaitable[object]] = nothing_to_store
        """Stores the outcomes of first replies, which come before further ones."""

    def note_sent(self, control_id: str, delivery_id: int) -> None:
        """Remember a message that is being sent."""
        self._sent[control_id] = delivery_id
        self._sent.move_to_end(control_id)
        if len(self._sent) > MAX_KNOWN:
            self._sent.popitem(last=False)

    def take(self, reply: bytes) -> Deferred[bool]:
        """Store a reply; tell whether it is about an earlier message to this destination."""
        task = asyncio.ensure_future(self._store(reply))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        taken: Deferred[Any] = Deferred.fromFuture(task)
        return taken

    async def stop(self) -> None:
        """Wait until the replies that have come are stored."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_STOP_SECONDS)

    async def _store(self, reply: bytes) -> bool:
        ack = read_ack(reply)
        control_id = ack.control_id.decode("utf-8", "replace")
        if ack.code is None or not control_id:
            return False
        try:
            await self.store_outcomes()
            return await Threads.DELIVERY.run(self._store_found, control_id, reply)
        except StoreError as error:
            self._log.error("further reply not stored", error=describe(error))
            return True  # nothing shows that it is about the message in flight

    def _store_found(self, control_id: str, reply: bytes) -> bool:
        kind, detail = read_reply(reply, {})
        return self._outbox.add_further_reply(
            self._destination,
            control_id,
            self._sent.get(control_id),
            reply,
            (kind.value, detail),
            self._clock(),
            is_negative=kind in NEGATIVE,
        )
