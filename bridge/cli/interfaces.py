"""`bridge interface`: a listener or destination with its mappings and codes, as a folder."""

from pathlib import Path
from typing import Annotated

import typer

from bridge.cli.options import Home

group = typer.Typer(help="One whole interface as a folder.", no_args_is_help=True)


@group.command("export")
def export_(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="New, or empty.")],
    names: Annotated[list[str], typer.Argument(metavar="NAME…", help="Listeners, destinations.")],
    home: Home,
) -> None:
    """Write settings, definitions in force and code tables; no secrets, no messages."""
    from bridge.admin.packages.folder_import import export
    from bridge.wiring.stores import bridge_database
    from config import load

    with bridge_database(home) as database:
        for path in export(load(home), database, names, folder):
            print(f"wrote {path}")


@group.command("import")
def import_(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", exists=True, file_okay=False)],
    home: Home,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace files of the same name.")
    ] = False,
    activate: Annotated[
        bool, typer.Option("--activate", help="Put it into force on all nodes, not into files.")
    ] = False,
    reason: Annotated[str, typer.Option("--reason", "-m", help="Why, for the history.")] = "",
) -> None:
    """Add an exported interface to this home: all of it, or nothing where it is wrong."""
    from bridge.admin.packages.folder_import import take_in

    if activate:
        _put_into_force(home, folder, reason, replace=replace)
        return
    done = take_in(home, folder, replace=replace)
    for name in (*done.channels, *done.files):
        print(f"added {name}")
    print("the service takes it in when it starts again")


def _put_into_force(home: Path, folder: Path, reason: str, *, replace: bool) -> None:
    import time

    from bridge.admin.audit_events import audited, operator
    from bridge.admin.definitions.activation import Who
    from bridge.admin.packages.activation import brought, put
    from bridge.admin.packages.folder_import import files_of_folder
    from bridge.wiring.stores import bridge_database
    from config import load

    settings = load(home)
    who = Who(operator(), time.time_ns() // 1_000_000, reason)
    with (
        bridge_database(home) as database,
        audited(home, database, "import", ("interface", folder.name)),
    ):
        found = brought(settings, database, files_of_folder(folder))
        put(settings, database, found, who, replace=replace)
    for name in (*found.channels, *(each.name for each in found.files)):
        print(f"added {name}")
    print("all nodes go on with it within two seconds")
