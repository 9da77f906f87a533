"""`bridge mapping activate|history|rollback|diff`: which version of a definition is in force."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.options import AsJson, Home

if TYPE_CHECKING:
    from bridge.admin.definitions.activation import Who


_Name = Annotated[str, typer.Argument(metavar="NAME", help="The definition.")]
_Reason = Annotated[str, typer.Option("--reason", "-m", help="Why, for the history.")]
_By = Annotated[str | None, typer.Option(help="Who, where it is not the user of this command.")]
_COLUMNS = ("version", "at", "actor", "origin", "reason", "in_force")
_WORDS = "files, active, previous, draft, or a version"


def add_to(group: typer.Typer) -> None:
    """Add these commands to `bridge mapping`."""
    commands: tuple[Callable[..., None], ...] = (activate, history, rollback, diff, read_with)
    for command in commands:
        group.command()(command)


def activate(
    home: Home,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]…", help="Default: all that the settings use."),
    ] = None,
    reason: _Reason = "",
    by: _By = None,
    version: Annotated[str, typer.Option(help="A version that is kept, instead of files.")] = "",
    draft: Annotated[bool, typer.Option("--draft", help="The draft, instead of files.")] = False,
) -> None:
    """Check the files of HOME and put them into force on all nodes; all of them or none."""
    from bridge.admin.audit_events import audited
    from bridge.admin.checks.connections import names_used
    from bridge.admin.definitions.activation import activate_files, rollback
    from bridge.admin.definitions.drafts import activate_draft
    from bridge.wiring.active_settings import current
    from bridge.wiring.stores import bridge_database
    from config import load

    settings, who = load(home), _who(by, reason)
    target = ("mapping", ", ".join(names or ["all"]))
    with (
        bridge_database(home) as database,
        audited(home, database, "activate", target, reason=reason),
    ):
        chosen = names or names_used(current(settings, database))
        if version:
            done = [rollback(settings, database, name, who, version) for name in chosen]
        elif draft:
            done = [activate_draft(settings, database, name, who) for name in chosen]
        else:
            done = activate_files(settings, database, chosen, who)
    for each in done:
        print(each)


def rollback(
    home: Home,
    name: _Name,
    version: Annotated[str, typer.Option("--to", help="Default: the one before.")] = "",
    reason: _Reason = "",
    by: _By = None,
) -> None:
    """Put the version before into force again, or the one that `--to` names."""
    from bridge.admin.audit_events import audited
    from bridge.admin.definitions.activation import rollback as go_back
    from bridge.wiring.stores import bridge_database
    from config import load

    with (
        bridge_database(home) as database,
        audited(home, database, "roll back", ("mapping", name)),
    ):
        print(go_back(load(home), database, name, _who(by, reason), version))


def read_with(
    home: Home,
    listener: Annotated[str, typer.Argument(metavar="LISTENER")],
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]…", help="Definitions in order; none: as in the settings."),
    ] = None,
    reason: _Reason = "",
    by: _By = None,
) -> None:
    """Let a listener read with these definitions, on all nodes, whatever the settings say."""
    from bridge.admin.audit_events import audited
    from bridge.admin.definitions.activation import activate as put
    from bridge.wiring.active_settings import current, version
    from bridge.wiring.stores import bridge_database
    from config import load

    settings = load(home)
    target = ("listener", listener)
    with (
        bridge_database(home) as database,
        audited(home, database, "read with", target, reason=reason),
    ):
        put(settings, database, [], _who(by, reason), records=[version(listener, names or [])])
        now = current(settings, database).listener
    chosen = next(each.mappings for each in now if each.name == listener)
    print(f"{listener} reads with {', '.join(chosen)}")


def history(home: Home, name: _Name, as_json: AsJson = False) -> None:
    """List what was in force, the newest first: who put it there, when, and why."""
    from dataclasses import asdict

    from bridge.cli.output import iso, rows
    from bridge.store.records.mapping_versions import history as past
    from bridge.wiring.stores import bridge_database

    with bridge_database(home) as database, database.read() as connection:
        found = past(connection, name)
    told = [
        {**asdict(each), "at": iso(each.at), "in_force": place == 0}
        for place, each in enumerate(found)
    ]
    rows(told, _COLUMNS, as_json=as_json)


def diff(
    home: Home,
    name: _Name,
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE…]", exists=True, help="Or folders.")
    ] = None,
    *,
    before: Annotated[str, typer.Option("--from", help=_WORDS)] = "active",
    after: Annotated[str, typer.Option("--to", help=_WORDS)] = "files",
    last: Annotated[
        int, typer.Option(min=1, help="So many stored messages, where no FILE is named.")
    ] = 100,
    site: Annotated[str, typer.Option(help="SiteID of files that yield none.")] = "SITE1",
    orders: Annotated[
        str,
        typer.Option(
            help="The definition that reads the orders of results; default: the version that"
            " each message was stored with, for files the listener's."
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """
    Show which stored messages two versions map differently, field by field.

    Exit status 1 where any does. Patient data: for your eyes only.
    """
    from bridge.cli.difference_output import Asked, show_differences

    asked = Asked(home, name, before, after, tuple(files or ()), last, site, orders)
    if show_differences(asked, as_json=as_json):
        raise typer.Exit(1)


def _who(by: str | None, reason: str) -> "Who":
    import time

    from bridge.admin.audit_events import operator
    from bridge.admin.definitions.activation import Who

    return Who(by or operator(), time.time_ns() // 1_000_000, reason)
