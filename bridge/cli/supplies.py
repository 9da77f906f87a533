"""`bridge site groups|templates|codes`: what a site brings with it."""

from pathlib import Path
from typing import Annotated

import typer

from bridge.cli.options import AsJson, Home

groups = typer.Typer(help="Prelim groups and their tags.", no_args_is_help=True)
templates = typer.Typer(help="Numbered templates, as IHE MRRT files.", no_args_is_help=True)
codes = typer.Typer(help="The billing code map, as a CSV.", no_args_is_help=True)

_SiteId = Annotated[str, typer.Argument(metavar="SITE_ID")]
_Number = Annotated[int, typer.Argument(metavar="NUMBER", min=1, max=999_999_999)]
_File = Annotated[Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="UTF-8.")]


@groups.command("list")
def list_groups(site_id: _SiteId, home: Home, as_json: AsJson = False) -> None:
    """List a site's prelim groups."""
    from bridge.cli.show import rows
    from bridge.wiring import supplying
    from bridge.wiring.administration import administer
    from config import load

    with administer(load(home)) as engine:
        found = supplying.groups(engine, site_id)
    rows(found, ("name", "tags", "members", "reviewers"), as_json=as_json)


@groups.command("set")
def set_group(
    site_id: _SiteId,
    name: Annotated[str, typer.Argument(metavar="GROUP")],
    home: Home,
    tag: Annotated[list[str], typer.Option(help="A prelimTag; repeat.")],
    member: Annotated[list[str] | None, typer.Option(help="A reader's e-mail; repeat.")] = None,
    reviewer: Annotated[
        list[str] | None, typer.Option(help="Default: everybody in no group; repeat.")
    ] = None,
) -> None:
    """Create or replace a prelim group."""
    from bridge.wiring import supplying
    from bridge.wiring.administration import administer
    from config import load

    with administer(load(home)) as engine:
        supplying.set_group(engine, site_id, name, tag, member or (), reviewer)
    print(f"set group {name} of site {site_id}")


@templates.command("list")
def list_templates(site_id: _SiteId, home: Home, as_json: AsJson = False) -> None:
    """List a site's templates; --json shows their documents."""
    from bridge.cli.show import rows
    from bridge.wiring import supplying
    from bridge.wiring.administration import administer
    from config import load

    with administer(load(home)) as engine:
        rows(supplying.templates(engine, site_id), ("number", "name"), as_json=as_json)


@templates.command("import")
def import_template(
    site_id: _SiteId,
    number: _Number,
    file: _File,
    home: Home,
    name: Annotated[str, typer.Option(help="Default: the file's own title.")] = "",
) -> None:
    """Create or replace a template; of the file only text, sections and fields are taken."""
    from bridge.wiring import supplying
    from bridge.wiring.administration import administer
    from config import load

    with administer(load(home)) as engine:
        text = file.read_text("utf-8-sig", "replace")
        title = supplying.import_template(engine, site_id, number, text, name)
    print(f"template {number} of site {site_id} is {title}")


@templates.command("export")
def export_template(site_id: _SiteId, number: _Number, home: Home) -> None:
    """Write a template to standard output."""
    from bridge.wiring import supplying
    from bridge.wiring.administration import administer
    from config import load

    with administer(load(home)) as engine:
        print(supplying.export_template(engine, site_id, number))


@templates.command("remove")
def remove_template(site_id: _SiteId, number: _Number, home: Home) -> None:
    """Remove a template."""
    from bridge.wiring import supplying
    from bridge.wiring.administration import administer
    from config import load

    with administer(load(home)) as engine:
        supplying.remove_template(engine, site_id, number)
    print(f"removed template {number} of site {site_id}")


@codes.command("import")
def import_codes(site_id: _SiteId, file: _File, home: Home) -> None:
    """Replace the code map by a CSV: system,match,code,description."""
    from bridge.wiring import supplying
    from bridge.wiring.administration import administer
    from config import load

    with administer(load(home)) as engine:
        count = supplying.import_codes(engine, site_id, file.read_text("utf-8-sig", "replace"))
    print(f"the code map of site {site_id} has {count} rows")


@codes.command("export")
def export_codes(site_id: _SiteId, home: Home) -> None:
    """Write the code map to standard output."""
    from bridge.wiring import supplying
    from bridge.wiring.administration import administer
    from config import load

    with administer(load(home)) as engine:
        print(supplying.code_map(engine, site_id), end="")
