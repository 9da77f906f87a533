"""
Claims and settles messages until none is left, and prints the applied ones.

Run as `python -m tests.bridge.queue.worker_process URL NODE`.
"""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Sequence

from bridge.queue import queries
from bridge.queue.claims import ClaimedMessage, MessageOutcome
from bridge.queue.inbox import Inbox
from bridge.queue.states import QueueEvent
from bridge.queue.worker import Worker
from bridge.store.database import Database


async def main(url: str, node: str) -> None:
    database = Database(url)

    async def apply(batch: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
        for message in batch:
            sys.stdout.write(f"{time.time_ns()} {message.lanes[0]} {message.message_id}\n")
        sys.stdout.flush()
        await asyncio.sleep(0.05)
        yield [
            MessageOutcome(claimed_message.message_id, QueueEvent.ACCEPTED)
            for claimed_message in batch
        ]

    worker = Worker(Inbox(database, node), apply, clock=lambda: time.time_ns() // 10**6, batch=20)
    await worker.start()
    while await asyncio.to_thread(queries.open_messages, database):  # noqa: ASYNC110  # others too
        await asyncio.sleep(0.05)
    await worker.stop()
    database.dispose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
