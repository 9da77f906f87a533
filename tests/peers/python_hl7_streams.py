"""python-hl7's asyncio client: `PORT COUNT`; prints COUNT replies to each message."""

import asyncio
import json
import sys

from hl7.mllp import open_hl7_connection


async def main(port: int, count: int) -> None:
    """Send each message on one connection and read `count` replies to it."""
    reader, writer = await open_hl7_connection("127.0.0.1", port, encoding="utf-8")
    for message in json.load(sys.stdin):
        writer.writeblock(message.encode())
        await writer.drain()
        for _ in range(count):
            reply = await reader.readmessage()
            sys.stdout.write(json.dumps(str(reply)) + "\n")
    writer.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
