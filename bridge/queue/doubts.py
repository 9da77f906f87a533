"""
Claims that were committed and never heard of: the connection broke before the database's word came.

They are ours and in nobody's hand; left alone, their patients would wait until the lease ends.
Claims of deliveries do wait for their lease: to send twice is worse than to send late.
"""

from collections.abc import Callable

from bridge.executors import Threads
from bridge.queue.hands import Hands
from bridge.queue.inbox import Inbox


class Doubts:
    """Whether there may be such claims, and how they are taken back."""

    def __init__(self, inbox: Inbox, hands: Hands, clock: Callable[[], int]) -> None:
        self.any = False
        """Whether a claim has failed since they were last taken back; nobody claims beside it."""
        self._inbox = inbox
        self._hands = hands
        self._clock = clock

    async def clear(self) -> None:
        """
        Queue again what is ours and not in hand. Raises StoreError.

        Not while anybody claims: what was claimed and is not in hand yet would be as ours as that.
        """
        if self.any:
            in_hand = frozenset(self._hands.message_ids())
            now, reclaim = self._clock(), self._inbox.reclaim
            if await Threads.LEASES.run(reclaim, now, starting=True, but=in_hand):
                self._inbox.hurry()
            self.any = False
