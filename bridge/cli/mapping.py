"""`bridge mapping`: check, try and compare definitions, and choose the active version."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from bridge.cli.options import AsJson, Home, Ids
from bridge.cli.output import (
    interruptible,
    iso,
    print_comparison,
    print_record,
    print_rows,
    print_trials,
    shown_progress,
)

group = typer.Typer(help="Mapping definitions.", no_args_is_help=True)

_VERSIONS = "files, active, previous, draft, or a version"
_COLUMNS = ("version", "at", "actor", "origin", "reason", "in_force")
_Name = Annotated[str, typer.Argument(metavar="NAME", help="The definition.")]
_Files = Annotated[
    list[Path] | None, typer.Argument(metavar="[FILE…]", exists=True, help="Or folders.")
]
_Orders = Annotated[
    str,
    typer.Option(
        help="The definition that reads the orders of results; default: the version that"
        " each message was stored with, for files the listener's."
    ),
]
_Reason = Annotated[str, typer.Option("--reason", "-m", help="Reason, for the history.")]
_By = Annotated[str | None, typer.Option(help="Author; default: the user of this command.")]


@group.command()
def check(
    home: Home,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Default: all of HOME.")
    ] = None,
) -> None:
    """List every mistake in the definitions, with file, line and column."""
    from bridge.admin.definitions.commands import check_files

    folder = home / "mappings"
    if not folder.is_dir():
        raise typer.BadParameter(f"there is no folder {folder}", param_hint="--home")
    issues, has_error = check_files(home, name)
    for issue in issues:
        print(issue)
    if has_error:
        sys.exit(1)
    print("ok" if not issues else "no errors")


@group.command("try")
def try_(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The definition to try.")],
    home: Home,
    files: _Files = None,
    *,
    last: Annotated[int, typer.Option(min=1, help="Number of stored messages, without FILE.")] = 20,
    version: Annotated[str, typer.Option(help=_VERSIONS)] = "files",
    site: Annotated[str, typer.Option(help="SiteID of messages without one.")] = "SITE1",
    listener: Annotated[
        str,
        typer.Option(help="Its site, time zone, charset and definitions apply to files."),
    ] = "",
    destination: Annotated[
        str, typer.Option(help="The destination whose last releases are composed, without FILE.")
    ] = "",
    orders: _Orders = "",
    validate: Annotated[
        bool, typer.Option("--validate", help="Validate against the structure of their version.")
    ] = False,
    profile: Annotated[
        Path | None, typer.Option(help="Validate against this conformance profile (XML) instead.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """
    Map messages with a definition and show the result. The output contains patient data.

    Without FILE, an outbound definition composes the last releases of its destinations as they
    would be sent now; the report service must run.
    """
    from bridge.admin.definitions.commands import TrialRequest, UnusableRequest, try_definition

    request = TrialRequest(
        *(home, name, version, tuple(files or ()), last, site, orders, listener),
        *(destination, validate, profile),
    )
    try:
        trials = try_definition(request)
    except UnusableRequest as error:
        raise typer.BadParameter(str(error)) from None
    print_trials(trials, as_json=as_json)
    sys.exit(0 if all(trial.passed for trial in trials) else 1)


@group.command()
def schema() -> None:
    """Print the JSON Schema of the language, for editors (docs/reference/mapping.schema.json)."""
    from mappings.schema import text

    sys.stdout.write(text())


@group.command()
def learn(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", exists=True, help="Or folders.")],
) -> None:
    """Propose a definition from messages of a new sender, with evidence, as a draft to edit."""
    from bridge.admin.definitions.commands import UnusableRequest, propose

    try:
        sys.stdout.write(propose(files))
    except UnusableRequest as error:
        raise typer.BadParameter(str(error)) from None


@group.command()
def activate(
    home: Home,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]…", help="Default: all definitions that the settings use."),
    ] = None,
    reason: _Reason = "",
    by: _By = None,
    version: Annotated[str, typer.Option(help="A stored version, instead of the files.")] = "",
    draft: Annotated[
        bool, typer.Option("--draft", help="The draft, instead of the files.")
    ] = False,
) -> None:
    """Check the files of HOME and activate them on all nodes, all of them or none."""
    from bridge.admin.definitions import commands

    author = commands.author(by, reason)
    for line in commands.activate(home, names or (), author, version=version, draft=draft):
        print(line)


@group.command()
def history(home: Home, name: _Name, as_json: AsJson = False) -> None:
    """List the activations of a definition, newest first, with author, time and reason."""
    from bridge.admin.definitions import commands

    found = [{**entry, "at": iso(entry["at"])} for entry in commands.history(home, name)]
    print_rows(found, _COLUMNS, as_json=as_json)


@group.command()
def rollback(
    home: Home,
    name: _Name,
    version: Annotated[str, typer.Option("--to", help="Default: the previously active one.")] = "",
    reason: _Reason = "",
    by: _By = None,
) -> None:
    """Activate the previous version again, or the one that `--to` names."""
    from bridge.admin.definitions import commands

    print(commands.roll_back(home, name, commands.author(by, reason), version))


@group.command()
def diff(
    home: Home,
    name: _Name,
    files: _Files = None,
    *,
    before: Annotated[str, typer.Option("--from", help=_VERSIONS)] = "active",
    after: Annotated[str, typer.Option("--to", help=_VERSIONS)] = "files",
    last: Annotated[
        int, typer.Option(min=1, help="Number of stored messages, without FILE.")
    ] = 100,
    site: Annotated[str, typer.Option(help="SiteID of files without one.")] = "SITE1",
    orders: _Orders = "",
    as_json: AsJson = False,
) -> None:
    """
    Show which messages two versions map differently, field by field.

    Exit status 1 if any message differs. The output contains patient data.
    """
    from bridge.admin.definitions.commands import TrialRequest, compare_versions

    request = TrialRequest(home, name, after, tuple(files or ()), last, site, orders)
    found = compare_versions(request, before)
    print_comparison(found, as_json=as_json)
    if found.differing:
        raise typer.Exit(1)


@group.command()
def shadow(
    home: Home,
    name: _Name,
    *,
    before: Annotated[str, typer.Option("--from", help=_VERSIONS)] = "active",
    after: Annotated[str, typer.Option("--to", help=_VERSIONS)] = "files",
    days: Annotated[float, typer.Option(min=0.01, help="Messages of the last days.")] = 7.0,
    as_json: AsJson = False,
) -> None:
    """
    Compare two versions on the stored messages of the last days, and count what differs.

    A definition that writes messages is compared on past results: the running service is asked for
    their texts. Nothing is sent. Exit status 1 if anything differs. The output contains no patient
    data.
    """
    from bridge.admin.background.commands import run_shadow

    with interruptible("nothing was changed"), shown_progress() as report:
        found = run_shadow(home, name, (before, after), days, report)
    if as_json:
        print_record(found, {}, as_json=True)
    else:
        rows = [{**row, "ids": " ".join(map(str, row["ids"][:5]))} for row in found["fields"]]
        if rows:
            print_rows(rows, ("field", "name", "count", "ids"), as_json=False)
        what = "results" if found["list"] == "deliveries" else "messages"
        print(f"{found['differ']} of {found['compared']} {what} differ")
    if found["differ"]:
        raise typer.Exit(1)


examples = typer.Typer(
    help="De-identified messages that a definition must go on reading as it does.",
    no_args_is_help=True,
)
group.add_typer(examples, name="examples")
_Version = Annotated[str, typer.Option("--version", help=_VERSIONS)]


@examples.command("list")
def examples_list(
    home: Home, name: _Name, version: _Version = "files", as_json: AsJson = False
) -> None:
    """List the examples of a definition, and the fields that differ with a version."""
    from bridge.admin.definitions.commands import list_examples

    rows = [
        {**row, "fields": " ".join(item["field"] for item in row["differences"][:5])}
        for row in list_examples(home, name, version)
    ]
    print_rows(rows, ("id", "label", "added_by", "state", "fields"), as_json=as_json)


@examples.command("accept")
def examples_accept(home: Home, name: _Name, ids: Ids = None, version: _Version = "files") -> None:
    """Make the results of a version the expected ones; without ID, of all that differ."""
    from bridge.admin.definitions.commands import accept_examples

    print(f"accepted: {accept_examples(home, name, version, ids or ())}")


@examples.command("remove")
def examples_remove(
    home: Home, name: _Name, ids: Annotated[list[int], typer.Argument(metavar="ID…")]
) -> None:
    """Remove examples of a definition."""
    from bridge.admin.definitions.commands import remove_examples

    print(f"removed: {remove_examples(home, name, ids)}")


@group.command()
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
    """Assign definitions to a listener on all nodes, instead of those in bridge.toml."""
    from bridge.admin.definitions import commands

    author = commands.author(by, reason)
    definitions = commands.assign_definitions(home, listener, names or (), author)
    print(f"listener {listener} uses {', '.join(definitions)}")
