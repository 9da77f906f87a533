"""hl7apy as a sender: `PORT`; it frames messages and parses replies, but has no client."""

import json
import socket
import sys

from hl7apy.parser import parse_message


def main(port: int) -> None:
    """Send the messages on one connection, as hl7apy's manual does, until it ends."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        for message in json.load(sys.stdin):
            connection.sendall(parse_message(message).to_mllp().encode())
            reply = b""
            while not reply.endswith(b"\x1c\r"):
                if not (data := connection.recv(4096)):
                    return
                reply += data
            parsed = parse_message(reply.strip(b"\x0b\x1c\r").decode())
            sys.stdout.write(json.dumps(parsed.to_er7()) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
