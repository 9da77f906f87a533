"""
Accepts orders without a pause, and prints the number of each stored order. The test kills it.

Run as `python -m tests.bridge.queue.log_process URL FIRST`. Numbers count up from FIRST.
"""

import asyncio
import sys
from itertools import count

from bridge.queue.message_log import MessageLog
from bridge.store.database import Database
from tests.bridge.queue.conftest import accept
from tests.bridge.queue.samples import arrival

SENDERS = 20


async def main(url: str, first: int) -> None:
    """Submit orders until the process is killed."""
    message_log = MessageLog(Database(url))
    message_log.start(asyncio.get_running_loop())
    numbers = count(first)

    async def send() -> None:
        while True:
            number = next(numbers)
            receipt = await accept(message_log, arrival(f"N{number}", patient=str(number % 50)))
            sys.stdout.write(f"{number} {receipt.message_id}\n")
            sys.stdout.flush()

    await asyncio.gather(*(send() for _ in range(SENDERS)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
