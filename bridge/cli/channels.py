"""`bridge listeners`, `bridge destinations`, `bridge alerts`: what runs, what is told."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.options import AsJson, Home

if TYPE_CHECKING:
    from bridge.monitoring.channels import Kind

_Name = Annotated[str, typer.Argument(metavar="NAME")]
_COLUMNS = ("name", "address", "state", "paused_at", "paused_by", "active_at", "trouble")


def _kind(text: str) -> "Kind":
    from bridge.monitoring.channels import Kind

    return Kind(text)


def group_of(kind: str, what: str) -> typer.Typer:
    """Make the commands for one kind of channel."""
    group = typer.Typer(help=what, no_args_is_help=True)

    @group.command("list")
    def list_(home: Home, as_json: AsJson = False) -> None:
        """List them: whether they run, since when and by whom they are paused, when last active."""
        from bridge.admin.channels import listed
        from bridge.cli.output import rows, times

        rows([times(each) for each in listed(home, _kind(kind))], _COLUMNS, as_json=as_json)

    @group.command()
    def pause(name: _Name, home: Home) -> None:
        """Take or send nothing until it is resumed; outlasts restarts, holds on all nodes."""
        from bridge.admin.channels import pause as stop

        stop(home, _kind(kind), name)
        print(f"{kind} {name} is paused")

    @group.command()
    def resume(name: _Name, home: Home) -> None:
        """Let it go on."""
        from bridge.admin.channels import resume as go_on

        was = go_on(home, _kind(kind), name)
        print(f"{kind} {name} is running" if was else f"{kind} {name} was not paused")

    return group


listeners = group_of("listener", "Where messages come in.")
destinations = group_of("destination", "Where results go.")
alerts = typer.Typer(help="What people were told about.", no_args_is_help=True)


@alerts.command("list")
def list_alerts(home: Home, as_json: AsJson = False) -> None:
    """List what stands, then what is over."""
    from bridge.cli.output import rows, times
    from bridge.monitoring.alerts import alerts as found
    from bridge.wiring.stores import bridge_database

    with bridge_database(home) as database:
        told = [times(each) for each in found(database)]
    rows(told, ("key", "severity", "text", "raised_at", "told_at", "cleared_at"), as_json=as_json)


@alerts.command()
def test(home: Home) -> None:
    """Tell everybody who would be told that this is a test; exit 1 where somebody was not."""
    import time

    import httpx

    from bridge.monitoring.alerts import News, Notice
    from bridge.monitoring.conditions import Condition, Severity
    from bridge.wiring.alerts import tellers
    from config import load

    notice = Notice(
        News.RAISED,
        Condition("test", Severity.WARNING, "a test: nothing is wrong"),
        time.time_ns() // 1_000_000,
    )
    found = tellers(load(home))
    failed = False
    for way, tell in found.items():
        try:
            tell([notice])
        except (OSError, httpx.HTTPError) as error:
            failed = True
            print(f"{way}: {error}", file=sys.stderr)
        else:
            print(f"{way}: told")
    if not found:
        print("nobody is told: neither alerts.mail nor alerts.webhook is set")
    if failed:
        raise typer.Exit(1)
