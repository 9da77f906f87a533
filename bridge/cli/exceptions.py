"""`bridge exceptions`: messages and orders that were processed and need attention."""

from typing import Annotated

import typer

from bridge.cli.options import AsJson, Home, Limit

group = typer.Typer(help="Messages and orders that need attention.", no_args_is_help=True)

_COLUMNS = ("kind", "row_id", "code", "noted_at")


@group.command("list")
def list_(home: Home, limit: Limit = 50, as_json: AsJson = False) -> None:
    """List exceptions that are not marked as seen, newest first; no patient data."""
    from bridge.admin.queue.exceptions import list_exceptions
    from bridge.cli.output import print_rows, with_times

    found = [with_times(each) for each in list_exceptions(home, limit)]
    print_rows(found, _COLUMNS, as_json=as_json)


@group.command()
def report(home: Home, as_json: AsJson = False) -> None:
    """
    Show what the reconcile job compared, what differs, and what it could not compare.

    The report covers the last complete round and the current one. No patient data.
    """
    from bridge.admin.queue.exceptions import NEVER_COMPARED, reconcile_report
    from bridge.cli.output import print_record, with_times

    rounds = {
        name: None if found is None else with_times(found)
        for name, found in reconcile_report(home).items()
    }
    if as_json:
        print_record(rounds, {"never_compared": NEVER_COMPARED}, as_json=True)
        return
    for name, found in rounds.items():
        print(f"{name} round")
        print_record(found or {"began_at": "there was none yet"}, {}, as_json=False)
        print()
    print(f"never compared: {NEVER_COMPARED}")


@group.command()
def reconcile(
    home: Home,
    wait: Annotated[float, typer.Option(help="Seconds to wait for it.", min=0)] = 120.0,
    as_json: AsJson = False,
) -> None:
    """
    Let the running service compare everything now, and show the report.

    Exit status 1 if it does not end in time. It continues in the background.
    """
    from bridge.admin.queue.exceptions import reconcile_now

    ended = reconcile_now(home, wait)
    report(home, as_json)
    if not ended:
        typer.echo(
            "not done yet: does a node run with the role delivery? `bridge exceptions report`",
            err=True,
        )
        raise typer.Exit(1)


@group.command()
def seen(
    home: Home,
    message: Annotated[list[int] | None, typer.Option(help="A message, by its id.")] = None,
    order: Annotated[list[int] | None, typer.Option(help="An order, by its row.")] = None,
    feed: Annotated[list[int] | None, typer.Option(help="A replaced feed, by its row.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All exceptions.")] = False,
) -> None:
    """Mark exceptions as seen, which ends their alert."""
    from bridge.admin.queue.exceptions import mark_as_seen

    rows = (message or (), order or (), feed or ())
    if not any(rows) and not everything:
        raise typer.BadParameter("say --message ID, --order ROW, --feed ROW or --all")
    print(f"seen: {mark_as_seen(home, *(((), (), ()) if everything else rows))}")
