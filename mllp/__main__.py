"""`python -m mllp listen HOST:PORT` and `python -m mllp send HOST:PORT FILE…`: bytes, no HL7.

A tool to look at a connection. It does not check or generate HL7 replies and has no TLS; use
`bridge receive` and `bridge send` for that.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from twisted.internet.defer import Deferred
from twisted.internet.endpoints import HostnameEndpoint, TCP4ServerEndpoint, TCP6ServerEndpoint
from twisted.internet.task import react
from typing_extensions import override

from mllp.client import MLLPClient
from mllp.contract import Clock, Peer, ReplyCallback, ServerLimits, ServerObserver
from mllp.errors import FramingError, MLLPError
from mllp.framing import DEFAULT_MAX_PAYLOAD, Frame
from mllp.server import MLLPServerFactory


def address(text: str) -> tuple[str, int]:
    """Parse HOST:PORT; an IPv6 address is in brackets."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 0xFFFF:  # noqa: PLR2004  # 16 bits
        raise argparse.ArgumentTypeError("expected HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m mllp", description="Look at an MLLP wire.")
    commands = parser.add_subparsers(dest="command", required=True)
    listen = commands.add_parser("listen", help="print what comes, until interrupted")
    listen.add_argument("address", type=address, metavar="HOST:PORT")
    listen.add_argument("--dir", type=Path, help="keep every payload as a file in this folder")
    listen.add_argument("--reply", type=Path, metavar="FILE", help="answer every frame with this")
    listen.add_argument("--max-frame", type=int, default=DEFAULT_MAX_PAYLOAD, metavar="BYTES")
    send = commands.add_parser("send", help="send files, one after the other; print the replies")
    send.add_argument("address", type=address, metavar="HOST:PORT")
    send.add_argument("files", type=Path, nargs="+", metavar="FILE")
    send.add_argument("--timeout", type=float, default=30.0, metavar="SECONDS")
    return parser.parse_args(arguments)


def print_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class ConsoleObserver(ServerObserver):
    """Prints the events of the connections."""

    @override
    def connection_opened(self, peer: Peer) -> None:
        print_line(f"connection {peer.connection_id} from {peer.host}:{peer.port}")

    @override
    def connection_closed(self, peer: Peer) -> None:
        print_line(f"connection {peer.connection_id} closed")

    @override
    def noise(self, length: int) -> None:
        print_line(f"{length} bytes outside of frames")

    @override
    def frame_refused(self, reason: FramingError) -> None:
        print_line(str(reason))


class FileRecorder:
    """Writes payloads to numbered new files, and sends the same reply to all."""

    def __init__(self, folder: Path | None, reply: Path | None) -> None:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._replies = () if reply is None else (reply.read_bytes(),)
        self._count = 0

    def __call__(self, arrived: Frame, peer: Peer, reply: ReplyCallback) -> None:
        self._count += 1
        note = ", truncated" if arrived.truncated else ""
        if self._folder is not None:
            note += f", kept as {self._keep(self._folder, arrived.payload)}"
        print_line(f"frame {self._count}: {len(arrived.payload)} bytes{note}")
        reply(() if arrived.truncated else self._replies)

    def _keep(self, folder: Path, payload: bytes) -> str:
        number = self._count
        while True:
            path = folder / f"{number:06}.hl7"
            try:
                with path.open("xb") as file:
                    file.write(payload)
            except FileExistsError:
                number += 1
            else:
                return path.name


async def listen(reactor: Any, options: argparse.Namespace) -> None:
    """Receive frames until the reactor stops."""
    factory = MLLPServerFactory(
        FileRecorder(options.dir, options.reply),
        ServerLimits(max_frame=options.max_frame),
        clock=cast(Clock, reactor),
        observer=ConsoleObserver(),
    )
    host, port = options.address
    kind: Any = TCP6ServerEndpoint if ":" in host else TCP4ServerEndpoint
    listening = await kind(reactor, port, interface=host).listen(factory)
    reactor.addSystemEventTrigger("before", "shutdown", factory.drain)
    print_line(f"listening on {host}:{listening.getHost().port}")
    await Deferred()


async def show_reply(client: MLLPClient, name: str, payload: bytes) -> None:
    """Send one payload and print its reply, one segment a line."""
    try:
        reply = await client.send(payload)
    except MLLPError as error:
        sys.stderr.write(f"{name}: {error}\n")
        raise SystemExit(1) from None
    sys.stdout.buffer.write(reply.replace(b"\r", b"\n") + b"\n")
    sys.stdout.flush()


async def send(reactor: Any, options: argparse.Namespace) -> None:
    """Send the files in turn; exit with status 1 at the first one without a reply."""
    payloads = [(path.name, path.read_bytes()) for path in options.files]
    client = MLLPClient(
        HostnameEndpoint(reactor, *options.address),
        clock=cast(Clock, reactor),
        reply_timeout=options.timeout,
        backoff=lambda _: 0.0,
    )
    try:
        for name, payload in payloads:
            await show_reply(client, name, payload)
    finally:
        await client.close()


def main() -> None:
    """Run the command of the command line."""
    options = parse(sys.argv[1:])
    command = {"listen": listen, "send": send}[options.command]
    react(lambda reactor: Deferred.fromCoroutine(command(reactor, options)))


if __name__ == "__main__":
    main()
