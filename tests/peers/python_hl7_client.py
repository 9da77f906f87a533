"""python-hl7's blocking client: `PORT`; reads a JSON array of messages, prints a reply per line."""

import json
import sys

import hl7
from hl7.client import MLLPClient


def main(port: int) -> None:
    with MLLPClient("127.0.0.1", port) as client:
        for message in json.load(sys.stdin):
            reply = client.send_message(message.encode())
            parsed = hl7.parse(reply.strip(b"\x0b\x1c\r").decode())
            sys.stdout.write(json.dumps(str(parsed)) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
