"""Keep the claims of what is in hand, and take back what the dead have left."""

import asyncio
import logging
from collections.abc import Callable

from bridge.executors import Threads
from bridge.queue.hands import Hands
from bridge.queue.inbox import Inbox
from bridge.store.errors import StoreError

_log = logging.getLogger(__name__)


async def keep_leases(
    inbox: Inbox, hands: Hands, clock: Callable[[], int], returned: Callable[[], None]
) -> None:
    """Extend what is in hand three times a lease, for ever; say when others' was queued again."""
    while True:
        await asyncio.sleep(inbox.lease / 3000)
        try:
            await Threads.LEASES.run(inbox.extend, hands.message_ids(), clock())
            if await Threads.LEASES.run(inbox.reclaim, clock()):
                returned()
        except StoreError as error:
            _log.warning("leases not extended: %s", error)
