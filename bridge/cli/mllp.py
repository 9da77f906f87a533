"""`bridge send` and `bridge receive`: MLLP peers for tests by hand."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.options import Authorities, Insecure, OwnCertificate, OwnKey, ServerName, Tls

if TYPE_CHECKING:
    from bridge.mllp_peers import PeerTls

_Address = Annotated[str, typer.Argument(metavar="HOST:PORT")]


def send(
    address: _Address,
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", exists=True, dir_okay=False)],
    *,
    reply_timeout: Annotated[float, typer.Option("--timeout", help="Seconds for each ACK.")] = 30.0,
    tls: Tls = False,
    ca: Authorities = None,
    certificate: OwnCertificate = None,
    key: OwnKey = None,
    server_name: ServerName = None,
    insecure: Insecure = False,
) -> None:
    """Send the messages of files and print each ACK; exit 1 if one is not AA or CA."""
    from bridge.mllp_peers import sender_tls
    from bridge.runtime.loop import run
    from config.quantities import parse_address
    from mappings.hl7.batch import messages_in

    if not tls and (insecure or any((ca, certificate, key, server_name))):
        raise typer.BadParameter("--ca, --certificate, --key, --server-name, --insecure need --tls")
    if (certificate is None) != (key is None):
        raise typer.BadParameter("--certificate and --key go together")
    if insecure and ca is not None:
        raise typer.BadParameter("--insecure checks no certificate: leave out --ca")

    messages = [message for file in files for message in messages_in(file.read_bytes())]
    if not messages:
        raise typer.BadParameter("no HL7 message in these files")

    options = None
    if tls:
        name = server_name or parse_address(address).host
        options = sender_tls(name, ca=ca, certificate=certificate, key=key, insecure=insecure)
        if insecure:
            print("warning: the server's certificate is not checked", file=sys.stderr)

    async def main(stop: asyncio.Event) -> int:
        return await _send(address, messages, reply_timeout, options)

    sys.exit(run(main))


async def _send(
    address: str, messages: list[bytes], reply_timeout: float, tls: "PeerTls | None"
) -> int:
    from bridge.mllp_peers import send as deliver
    from config.quantities import parse_address

    peer = parse_address(address)
    refused = 0
    sent = deliver(peer.host, peer.port, messages, reply_timeout=reply_timeout, tls=tls)
    async for replies in sent:
        refused += not replies.accepted
        for reply in replies.replies:
            print(reply.replace(b"\r", b"\n").decode("utf-8", "backslashreplace"))
        if replies.error:
            print(f"no acknowledgment: {replies.error}", file=sys.stderr)
        elif not replies.replies:
            print("no acknowledgment: none was requested", file=sys.stderr)
    return 1 if refused else 0


def receive(
    address: _Address,
    folder: Annotated[
        Path | None, typer.Option("--dir", help="Write each message to a file here.")
    ] = None,
    answer: Annotated[str, typer.Option(help="AA, AE, AR, CA, CE or CR.")] = "AA",
) -> None:
    """Receive messages until interrupted, and acknowledge each with one code."""
    from bridge.runtime.loop import run
    from config.private_files import make_folder
    from mappings.hl7.refusals import AckCode

    if answer.upper() not in set(AckCode):
        raise typer.BadParameter(f"--answer must be one of {', '.join(AckCode)}")
    code = AckCode(answer.upper())
    if folder is not None:
        make_folder(folder)

    async def main(stop: asyncio.Event) -> int:
        return await _receive(address, folder, code, stop)

    sys.exit(run(main))


async def _receive(address: str, folder: Path | None, code: str, stop: asyncio.Event) -> int:
    from twisted.internet import reactor

    from bridge.mllp_peers import AcknowledgingReceiver, ReceivedMessage
    from config import private_files
    from config.quantities import parse_address
    from mappings.hl7.refusals import AckCode

    count = 0

    def print_received(received: ReceivedMessage) -> None:
        nonlocal count
        count += 1
        header = received.header
        kind = f"{header.message_code}^{header.trigger}" if header else "not HL7"
        place = ""
        if folder is not None:
            file = folder / f"{count:06d}.hl7"
            private_files.write(file, received.payload)
            place = f"  {file}"
        print(f"{count:>6}  {kind:<8}  {len(received.payload)} bytes{place}", flush=True)

    peer = parse_address(address)
    port = AcknowledgingReceiver(AckCode(code), print_received).listen(
        reactor, peer.host, peer.port
    )
    print(f"listening on {peer.host}:{port}, answering {code}", flush=True)
    await stop.wait()
    return 0
