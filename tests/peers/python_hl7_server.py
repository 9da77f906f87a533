"""python-hl7's asyncio server: `PORT`; prints a line for each message that it parsed."""

import asyncio
import json
import sys

from hl7.mllp import HL7StreamReader, HL7StreamWriter, start_hl7_server

LIMIT = 16 * 2**20
"""The default is 64 KiB: above it the server raises LimitOverrunError and stops reading."""


async def answer(reader: HL7StreamReader, writer: HL7StreamWriter) -> None:
    try:
        while True:
            message = await reader.readmessage()
            sys.stdout.write(json.dumps(str(message)) + "\n")
            sys.stdout.flush()
            writer.writemessage(message.create_ack())
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main(port: int) -> None:
    """Serve until the process is ended."""
    server = await start_hl7_server(answer, "127.0.0.1", port, encoding="utf-8", limit=LIMIT)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
