"""`bridge import-mirth`: a proposal from the channels of Mirth Connect."""

import re
import sys
from pathlib import Path
from typing import Annotated

import typer


def import_mirth(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="CHANNEL.xml",
            exists=True,
            dir_okay=False,
            help="A channel, a group of channels or a backup of the server, as exported.",
        ),
    ],
    folder: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FOLDER", help="Write the package; new, or empty."),
    ] = None,
    name: Annotated[
        str, typer.Option(help="Name of the listener and its definition; else from the channel.")
    ] = "",
    site: Annotated[str, typer.Option(help="SiteID of the orders of the listeners.")] = "",
    time_zone: Annotated[
        str, typer.Option(metavar="ZONE", help="Zone of times without one, as Europe/Zurich.")
    ] = "",
) -> None:
    """
    Propose listener, definition and destinations for a channel of Mirth or OIE.

    Without --output it prints the report only. The package is a folder for `bridge interface
    import`; all its connections are disabled. JavaScript is listed with its lines and never run.
    Exit 1 if a part was not converted.
    """
    from bridge.admin.mirth.channels import convert_export, report, write_package
    from bridge.admin.mirth.conversion import ConversionOptions

    if name and not re.fullmatch(r"[A-Za-z0-9_-]{1,48}", name):
        raise typer.BadParameter("--name has up to 48 letters, digits, - and _")
    options = ConversionOptions(name, site, time_zone)
    conversion = convert_export(file.read_bytes(), options)
    print(report(conversion), end="")
    if folder is not None:
        for path in write_package(conversion, folder):
            print(f"wrote {path}", file=sys.stderr)
    if conversion.unconverted:
        raise typer.Exit(1)
