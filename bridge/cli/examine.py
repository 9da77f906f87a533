"""`bridge examine`: protocol probes against a partner's receiver or sender."""

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from bridge.cli.options import (
    AsJson,
    Authorities,
    Insecure,
    OwnCertificate,
    OwnKey,
    ServerName,
    Tls,
)

if TYPE_CHECKING:
    from bridge.admin.examination.proposal import ProposedChange
    from bridge.admin.examination.results import Examination, ProbeResult
    from bridge.admin.examination.wire import Target


def examine(
    address: Annotated[
        str, typer.Argument(metavar="HOST:PORT", help="The receiver; --sender: where to listen.")
    ],
    *,
    sender: Annotated[
        bool, typer.Option("--sender", help="Listen, and examine the sender that connects.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="The partner agrees to get test messages; do not ask.")
    ] = False,
    message: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="Send this HL7 message, without a patient's data; MSH-10 and MSH-11 are replaced.",
        ),
    ] = None,
    probe: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this probe; repeatable.")
    ] = None,
    ack_timeout: Annotated[
        float,
        typer.Option(
            "--timeout", min=0.1, max=120, help="Seconds for each ACK; 90 for the first one."
        ),
    ] = 10.0,
    idle: Annotated[
        float, typer.Option(min=0, max=300, help="Seconds of silence of the probe `idle`.")
    ] = 60.0,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the report for the partner as HTML.")
    ] = None,
    pdf: Annotated[Path | None, typer.Option(metavar="FILE", help="Write it as PDF.")] = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write it as text.")] = None,
    tls: Tls = False,
    ca: Authorities = None,
    certificate: OwnCertificate = None,
    key: OwnKey = None,
    server_name: ServerName = None,
    insecure: Insecure = False,
    as_json: AsJson = False,
) -> None:
    """
    Test how a partner's receiver or sender behaves, and write a report for the partner.

    The receiver gets up to 60 test messages with MSH-11 = T and an invented patient; it may store
    them. With --sender the command listens and answers in unusual ways: the partner sends test
    messages. At the end it prints the settings of bridge.toml that fit the partner. Exit 1 if a
    probe found a fault.
    """
    from bridge.admin.examination.proposal import new_destination, new_listener, propose
    from bridge.admin.examination.receiver import MOST_MESSAGES, PROBES, ReceiverOptions
    from bridge.admin.examination.report import text_lines
    from bridge.admin.examination.run import examine_receiver, examine_sender
    from bridge.admin.examination.sender import SenderOptions

    if unknown := [name for name in probe or () if name not in PROBES]:
        raise typer.BadParameter(f"no probe {unknown[0]}; there are {', '.join(PROBES)}")
    if sender and (tls or probe or message):
        raise typer.BadParameter("--sender has no --tls, --probe and --message")
    files = TlsFiles(ca, certificate, key, server_name, insecure)
    target = _target(address, ack_timeout, tls=tls, files=files)
    template = _template(message)
    if not yes:
        _confirm(
            f"Answer the sender that connects to {address} in unusual ways?"
            if sender
            else f"Send up to {MOST_MESSAGES} test messages to {address}?"
        )

    def show(result: "ProbeResult") -> None:
        if not as_json:
            print("\n".join(text_lines(result)), flush=True)

    def now() -> int:
        return time.time_ns() // 1_000_000

    if sender:
        text = f"listening on {target.address}; the sender may connect now"
        print(text, file=sys.stderr if as_json else sys.stdout, flush=True)
        work = examine_sender(target.host, target.port, SenderOptions(), show, now)
    else:
        chosen = frozenset(probe) if probe else None
        options = ReceiverOptions(template, chosen, idle=idle)
        work = examine_receiver(target, options, show, now)
    examination = asyncio.run(work)
    section = new_listener(target.port) if sender else new_destination(target.address, has_tls=tls)
    changes = propose(section, examination.results).changes
    if as_json:
        shown = {**asdict(examination), "proposal": [asdict(change) for change in changes]}
        print(json.dumps(shown, ensure_ascii=False))
    else:
        _print_settings("listener" if sender else "destination", changes)
    _write_reports(examination, changes, html=html, pdf=pdf, text=report)
    if examination.has_faults:
        raise typer.Exit(1)


def _print_settings(section: str, changes: "Sequence[ProposedChange]") -> None:
    if changes:
        print(f"\nsettings that fit, for the [[{section}]] in bridge.toml:")
    for change in changes:
        print(f"{change.line}  # {change.why}")


def _write_reports(
    examination: "Examination",
    changes: "Sequence[ProposedChange]",
    *,
    html: Path | None,
    pdf: Path | None,
    text: Path | None,
) -> None:
    from bridge.admin.examination.report import document_of
    from bridge.admin.specification.document import as_html, as_pdf, as_text

    document = document_of(examination, changes)
    if html is not None:
        html.write_text(as_html(document), "utf-8")
    if pdf is not None:
        pdf.write_bytes(as_pdf(document))
    if text is not None:
        text.write_text(as_text(document), "utf-8")


def _confirm(question: str) -> None:
    if not (sys.stdin.isatty() and typer.confirm(question)):
        print("nothing was sent: give --yes if the partner agrees", file=sys.stderr)
        raise typer.Exit(2)


class TlsFiles(NamedTuple):
    """The options of TLS."""

    ca: Path | None
    certificate: Path | None
    key: Path | None
    server_name: str | None
    insecure: bool


def _target(address: str, ack_timeout: float, *, tls: bool, files: TlsFiles) -> "Target":
    from bridge.admin.examination.wire import Target
    from bridge.mllp_peers import sender_tls
    from config.quantities import parse_address

    peer = parse_address(address)
    if not tls:
        if any(files):
            raise typer.BadParameter(
                "--ca, --certificate, --key, --server-name, --insecure need --tls"
            )
        return Target(peer.host, peer.port, ack_timeout=ack_timeout)
    if (files.certificate is None) != (files.key is None):
        raise typer.BadParameter("--certificate and --key go together")
    if files.insecure:
        print("warning: the server's certificate is not checked", file=sys.stderr)
    name = files.server_name or peer.host
    given = sender_tls(
        name,
        ca=files.ca,
        certificate=files.certificate,
        key=files.key,
        insecure=files.insecure,
    )
    return Target(peer.host, peer.port, given.context, name, ack_timeout=ack_timeout)


def _template(file: Path | None) -> bytes | None:
    from bridge.admin.examination.messages import UnusableMessage, template_of

    if file is None:
        return None
    try:
        return template_of(file.read_bytes())
    except UnusableMessage as error:
        raise typer.BadParameter(str(error)) from None
