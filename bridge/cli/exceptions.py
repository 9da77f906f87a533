"""`bridge exceptions`: messages and orders that were processed and need attention."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.options import AsJson, Home, Limit

if TYPE_CHECKING:
    from bridge.store.database import Database


group = typer.Typer(help="Messages and orders that need attention.", no_args_is_help=True)

_LOOK = 0.5  # seconds
_COLUMNS = ("kind", "row_id", "code", "noted_at")


@group.command("list")
def list_(home: Home, limit: Limit = 50, as_json: AsJson = False) -> None:
    """List exceptions that are not marked as seen, newest first; no patient data."""
    from bridge.cli.output import rows, times
    from bridge.store.records import exceptions
    from bridge.wiring.stores import bridge_database

    with bridge_database(home) as database:
        found = [times(asdict(each)) for each in exceptions.list_unseen(database, limit)]
    rows(found, _COLUMNS, as_json=as_json)


@group.command()
def report(home: Home, as_json: AsJson = False) -> None:
    """
    Show what the reconcile job compared, what differs, and what it did not look at.

    Of its last whole round, and of the one that goes on; no patient data.
    """
    from bridge.wiring.stores import bridge_database

    with bridge_database(home) as database:
        _report(database, as_json=as_json)


@group.command()
def reconcile(
    home: Home,
    wait: Annotated[float, typer.Option(help="Seconds to wait for it.", min=0)] = 120.0,
    as_json: AsJson = False,
) -> None:
    """
    Compare everything now, by the service that runs, and show the report.

    Exit code 1 where it is not done in time; it goes on all the same.
    """
    import time

    from bridge.store.records import reconcile_rounds
    from bridge.wiring.stores import bridge_database

    with bridge_database(home) as database:
        with database.write() as connection:
            reconcile_rounds.ask(connection, time.time_ns() // 1_000_000)
        until, waits = time.monotonic() + wait, True
        while waits and time.monotonic() < until:
            time.sleep(min(_LOOK, wait))
            with database.read() as connection:
                waits = bool(reconcile_rounds.wish(connection))
        _report(database, as_json=as_json)
    if waits:
        typer.echo("not done yet: is a node up that delivers? `bridge exceptions report`", err=True)
        raise typer.Exit(1)


def _report(database: "Database", *, as_json: bool) -> None:
    from bridge.cli.output import one, times
    from bridge.store.records import reconcile_rounds

    with database.read() as connection:
        last, running = reconcile_rounds.last(connection), reconcile_rounds.running(connection, 0)
    told = {
        "last": last and times(reconcile_rounds.told(last)),
        "running": times(reconcile_rounds.told(running)),
    }
    if as_json:
        one(told, {"never_compared": reconcile_rounds.NEVER_COMPARED}, as_json=True)
        return
    for name, found in told.items():
        print(f"{name} round")
        one(found or {"began_at": "there was none yet"}, {}, as_json=False)
        print()
    print(f"never compared: {reconcile_rounds.NEVER_COMPARED}")


@group.command()
def seen(
    home: Home,
    message: Annotated[list[int] | None, typer.Option(help="A message, by its id.")] = None,
    order: Annotated[list[int] | None, typer.Option(help="An order, by its row.")] = None,
    feed: Annotated[list[int] | None, typer.Option(help="A replaced feed, by its row.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All there are.")] = False,
) -> None:
    """Say that somebody has looked; whoever is told of it hears no more."""
    import time

    from bridge.admin.audit_events import audited, operator
    from bridge.store.records import exceptions
    from bridge.store.records.exceptions import ExceptionSubject
    from bridge.wiring.stores import bridge_database

    chosen = [
        *((ExceptionSubject.MESSAGE, each) for each in message or ()),
        *((ExceptionSubject.ORDER, each) for each in order or ()),
        *((ExceptionSubject.FEED, each) for each in feed or ()),
    ]
    if not chosen and not everything:
        raise typer.BadParameter("say --message ID, --order ROW, --feed ROW or --all")
    with (
        bridge_database(home) as database,
        audited(home, database, "mark as seen", ("exceptions", str(len(chosen) or "all"))),
    ):
        now = time.time_ns() // 1_000_000
        count = exceptions.mark_seen(database, None if everything else chosen, now, operator())
    print(f"seen: {count}")
