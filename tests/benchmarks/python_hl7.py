"""
A peer: python-hl7's asyncio MLLP server, which parses and answers and stores nothing.

It uses one character set; Latin-1 has a character for every byte.
"""

import asyncio
import sys

import hl7.mllp


async def _serve(reader: hl7.mllp.HL7StreamReader, writer: hl7.mllp.HL7StreamWriter) -> None:
    try:
        while not writer.is_closing():
            message = await reader.readmessage()
            writer.writemessage(message.create_ack())
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def _main(port: int) -> None:
    server = await hl7.mllp.start_hl7_server(_serve, "127.0.0.1", port=port, encoding="latin-1")
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1])))
