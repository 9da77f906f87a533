"""`bridge channels`, `listeners`, `destinations`, `alerts`, `interface`."""

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from bridge.cli.options import AsJson, Home
from bridge.cli.output import iso, print_line, print_rows, with_times

_Name = Annotated[str, typer.Argument(metavar="NAME")]
_COLUMNS = ("name", "address", "state", "paused_at", "paused_by", "active_at", "trouble", "tls")
_ALERT_COLUMNS = ("key", "severity", "text", "raised_at", "notified_at", "cleared_at")
_FORMER_NAMES = {"told_at": "notified_at", "returns": "recurrences"}
"""Names of columns in JSON before migration 0029, for scripts that use them."""


def first_steps(home: Home, as_json: AsJson = False) -> None:
    """
    Show what an installation needs at first, and what of it is done.

    The steps are those of the start page: a site, a sender, a receiver, a reader.
    """
    from dataclasses import asdict

    from bridge.admin.overview.first_steps import read_first_steps

    steps = read_first_steps(home, lambda: time.time_ns() // 1_000_000)
    if as_json:
        print(json.dumps([asdict(step) for step in steps], ensure_ascii=False, indent=2))
        return
    for step in steps:
        print_line(f"{'done' if step.done else 'to do':<5}  {step.name:<8}  {step.words}")


_OVERVIEW_COLUMNS = (
    *("channel", "state", "rate", "errors", "share", "waiting", "oldest", "p50", "p99"),
    "last activity",
)


def overview(home: Home, as_json: AsJson = False) -> None:
    """
    Show all listeners and destinations, and what needs a person.

    The columns: messages or results of the last minute; those of the last hour that are parked or
    refused, and their share; what waits, and since when; the latencies p50 and p99 of the last hour
    in milliseconds. Problems are first.
    """
    from bridge.admin.overview.channels import read_overview

    found = read_overview(home, time.time_ns() // 1_000_000)
    if as_json:
        print(json.dumps(found, ensure_ascii=False, indent=2))
        return
    _print_needs(found["needs"])
    print()
    print_rows([_overview_row(row) for row in found["channels"]], _OVERVIEW_COLUMNS, as_json=False)


def attention(home: Home, as_json: AsJson = False) -> None:
    """
    Show what needs a person, by cause: the worst first, with what to do.

    The causes are those of the console's page Needs attention: parked messages and results, results
    to be checked, codes without an entry, and active alerts. No patient data.
    """
    from bridge.admin.overview.attention import read_groups

    found = asdict(read_groups(home, time.time_ns() // 1_000_000))
    if as_json:
        print(json.dumps(found, ensure_ascii=False, indent=2))
        return
    _print_needs(found)


def _print_needs(found: Mapping[str, Any]) -> None:
    rows = [_need_row(group) for group in found["groups"]]
    if rows:
        print_rows(rows, _NEED_COLUMNS, as_json=False)
    elif found["checked"]:
        print("Nothing needs attention.")
    if not found["complete"]:
        print("note: there are more parked rows than are counted here", file=sys.stderr)
    if not found["checked"]:
        print("note: connections were not checked in the last minutes", file=sys.stderr)


_NEED_COLUMNS = ("severity", "count", "subject", "channel", "last at", "cause", "advice")


def _need_row(group: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **group,
        "subject": group["subject"].value,
        "channel": " ".join(filter(None, (group["kind"], group["channel"]))),
        "last at": iso(group["last_at"]),
        "count": group["count"] or "",
        "cause": group["words"],
    }


def _overview_row(row: dict[str, Any]) -> dict[str, Any]:
    share = None if row["share"] is None else f"{row['share']:.1%}"
    return {
        **row,
        "channel": f"{row['kind']} {row['name']}",
        "share": share,
        "oldest": iso(row["oldest"]),
        "last activity": iso(row["active_at"]),
    }


def _with_handshake_times(channel: dict[str, Any]) -> dict[str, Any]:
    failures = [with_times(failure) for failure in channel["handshake_failures"]]
    return {**channel, "handshake_failures": failures}


def channel_group(kind: str, summary: str) -> typer.Typer:
    """Return the commands for the listeners or for the destinations."""
    group = typer.Typer(help=summary, no_args_is_help=True)

    @group.command("list")
    def list_(home: Home, as_json: AsJson = False) -> None:
        """List them with their state, who paused them since when, and the last activity."""
        from bridge.admin.channel_operations import list_channels

        found = [
            _with_handshake_times(with_times(channel)) for channel in list_channels(home, kind)
        ]
        print_rows(found, _COLUMNS, as_json=as_json)

    @group.command()
    def pause(name: _Name, home: Home) -> None:
        """Stop receiving or sending on all nodes until it is resumed, also after a restart."""
        from bridge.admin import channel_operations

        channel_operations.pause(home, kind, name)
        print(f"{kind} {name} is paused")

    @group.command()
    def resume(name: _Name, home: Home) -> None:
        """Continue receiving or sending."""
        from bridge.admin import channel_operations

        paused = channel_operations.resume(home, kind, name)
        print(f"{kind} {name} is running" if paused else f"{kind} {name} was not paused")

    return group


listeners = channel_group("listener", "Addresses at which messages arrive.")
destinations = channel_group("destination", "Receivers of results.")
alerts = typer.Typer(help="Conditions that people are notified of.", no_args_is_help=True)


@alerts.command("list")
def list_alerts(home: Home, as_json: AsJson = False) -> None:
    """List active alerts, then those that have ended."""
    from bridge.admin import channel_operations as use_cases

    found = [
        with_times(alert | {former: alert[name] for former, name in _FORMER_NAMES.items()})
        for alert in use_cases.list_alerts(home)
    ]
    print_rows(found, _ALERT_COLUMNS, as_json=as_json)


@alerts.command()
def test(home: Home) -> None:
    """Send a test notification to all recipients; exit 1 if one could not be notified."""
    from bridge.admin.channel_operations import send_test_notification

    results = list(send_test_notification(home))
    for way, error in results:
        print(f"{way}: {error or 'notified'}", file=sys.stderr if error else sys.stdout)
    if not results:
        print("nobody is notified: neither alerts.mail nor alerts.webhook is set")
    if any(error for _, error in results):
        raise typer.Exit(1)


interfaces = typer.Typer(
    help="A listener or destination with its mappings: as a folder, or as a document for partners.",
    no_args_is_help=True,
)


@interfaces.command("export")
def export_(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="New, or empty.")],
    names: Annotated[list[str], typer.Argument(metavar="NAME…", help="Listeners, destinations.")],
    home: Home,
) -> None:
    """Write settings, active definitions and code tables to a folder, without secrets."""
    from bridge.admin.packages.folder import export

    for path in export(home, names, folder):
        print(f"wrote {path}")


@interfaces.command("specification")
def specification(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A listener or a destination.")],
    home: Home,
    *,
    kind: Annotated[
        str | None, typer.Option(help="listener | destination, if both have this name.")
    ] = None,
    version: Annotated[str, typer.Option(help="A version of one of its definitions.")] = "active",
    compare: Annotated[
        str, typer.Option(metavar="VERSION", help="Also list the changes since this version.")
    ] = "",
    wanted: Annotated[str, typer.Option("--format", help="html | pdf | json | text.")] = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Default: print it.")
    ] = None,
    address: Annotated[
        bool, typer.Option("--address", help="With the address of the listener or destination.")
    ] = False,
) -> None:
    """
    Write the specification of a listener or destination for the partner.

    It is that of the active version, without patient data: transport, messages, segments, fields,
    codes, acknowledgments, order control, and made-up or de-identified examples. The format follows
    from the name of the file, else it is text.
    """
    import json

    from bridge.admin.specification.use_case import SpecificationFormat, interface_specification
    from config.sections import ChannelKind

    named = wanted or (output.suffix.removeprefix(".").lower() if output else "text")
    named = {"txt": "text", "htm": "html"}.get(named, named)
    try:
        chosen = SpecificationFormat(named)
        of = ChannelKind(kind) if kind else None
    except ValueError:
        raise typer.BadParameter("write html, pdf, json or text; listener or destination") from None
    if output is None and chosen is SpecificationFormat.PDF:
        raise typer.BadParameter("write PDF to a file: -o FILE")
    found = interface_specification(home, name, of, chosen, version, compare, with_address=address)
    content = (
        found
        if isinstance(found, bytes)
        else json.dumps(found, ensure_ascii=False, indent=2).encode()
    )
    if output is not None:
        output.write_bytes(content)
        print(f"wrote {output}")
        return
    for line in content.decode().splitlines():
        print_line(line)


@interfaces.command("import")
def import_(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="An exported interface.")],
    home: Home,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Replace existing connections and files of the same name."),
    ] = False,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SETTING",
            help="Existing connections keep their value of it, such as bind, address or tls.",
        ),
    ] = None,
    activate: Annotated[
        bool, typer.Option("--activate", help="Activate it on all nodes, instead of writing files.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what would change.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask on a terminal.")] = False,
    reason: Annotated[str, typer.Option("--reason", "-m", help="Reason, for the history.")] = "",
) -> None:
    """
    Import an exported interface: all of it, or nothing after an error.

    The command first prints what changes. On a terminal it asks before it continues.
    """
    from bridge.admin.packages.activation import activate_folder
    from bridge.admin.packages.folder import import_folder

    def confirm(changes: list[str]) -> bool:
        print("\n".join(changes))
        if dry_run:
            return False
        return yes or not sys.stdin.isatty() or typer.confirm("Import?")

    kept = tuple(keep or ())
    if activate:
        changed = activate_folder(home, folder, reason, replace=replace, keep=kept, confirm=confirm)
        note = "all nodes use it within two seconds"
    else:
        changed = import_folder(home, folder, replace=replace, keep=kept, confirm=confirm)
        note = "the service uses it after its next start"
    if changed is None:
        print("nothing was changed")
        if not dry_run:
            raise typer.Exit(1)
        return
    for line in changed:
        print(line)
    print(note if changed else "nothing was changed")
