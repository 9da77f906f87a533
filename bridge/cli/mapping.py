"""`bridge mapping`: check definitions, and try them on messages, before anything is switched on."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli import mapping_versions
from bridge.cli.options import AsJson, Home

if TYPE_CHECKING:
    from bridge.cli.trial_output import Validate

group = typer.Typer(help="Mapping definitions.", no_args_is_help=True)
mapping_versions.add_to(group)

_Name = Annotated[str | None, typer.Argument(metavar="[NAME]", help="Default: all of HOME.")]


@group.command()
def check(home: Home, name: _Name = None) -> None:
    """Name every mistake of the definitions, with file, line and column."""
    from bridge.workers.hooks import install
    from mappings.compiler import check as find_mistakes
    from mappings.language.diagnostics import IssueSeverity

    folder = home / "mappings"
    if not folder.is_dir():
        raise typer.BadParameter(f"there is no folder {folder}", param_hint="--home")
    install()
    issues = find_mistakes(folder, name)
    for issue in issues:
        print(issue)
    if any(issue.severity is IssueSeverity.ERROR for issue in issues):
        sys.exit(1)
    print("ok" if not issues else "no errors")


@group.command("try")
def try_(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The definition to try.")],
    home: Home,
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE…]", exists=True, help="Or folders.")
    ] = None,
    *,
    last: Annotated[
        int, typer.Option(min=1, help="So many stored messages, where no FILE is named.")
    ] = 20,
    version: Annotated[
        str, typer.Option(help="files, active, previous, draft, or a version")
    ] = "files",
    site: Annotated[str, typer.Option(help="SiteID where the message yields none.")] = "SITE1",
    listener: Annotated[
        str, typer.Option(help="Whose site, time zone and charset hold for files; else UTC, UTF-8.")
    ] = "",
    orders: Annotated[
        str,
        typer.Option(
            help="The definition that reads the orders of results; default: the version that"
            " each message was stored with, for files the listener's."
        ),
    ] = "",
    validate: Annotated[
        bool, typer.Option("--validate", help="Hold them against their version's structure too.")
    ] = False,
    profile: Annotated[
        Path | None, typer.Option(help="Hold them against this conformance profile (XML) instead.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a definition makes of messages. Patient data: for your eyes only."""
    from bridge.cli.trial_output import Asked, show_trials

    look = _validator(profile) if validate or profile else None
    asked = Asked(home, name, version, tuple(files or ()), last, site, orders, listener)
    sys.exit(0 if show_trials(asked, look, as_json=as_json) else 1)


@group.command()
def schema() -> None:
    """Print the JSON Schema of the language, for editors (docs/reference/mapping.schema.json)."""
    from mappings.schema.document import text

    sys.stdout.write(text())


@group.command()
def learn(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", exists=True, help="Or folders.")],
) -> None:
    """Propose a definition from messages of a new sender, with evidence; to be edited."""
    from bridge.admin.definitions.samples import from_files
    from mappings.authoring.inference import infer_definition as propose

    found = [sample.payload for sample in from_files(files, "")]
    if not found:
        raise typer.BadParameter("there is no HL7 message in these files")
    sys.stdout.write(propose(found).text)


def _validator(profile: Path | None) -> "Validate":
    from functools import partial

    from bridge.intake.validation.profiles import load_profile
    from bridge.intake.validation.structure import validate

    return partial(validate, profile=None if profile is None else load_profile(profile))
