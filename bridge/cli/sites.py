"""`bridge site`: the sites of the internal report engine, with groups, templates and codes."""

from pathlib import Path
from typing import Annotated

import typer

from bridge.cli.options import AsJson, Home, open_engine
from bridge.cli.output import print_record, print_rows

groups = typer.Typer(help="Prelim groups and their tags.", no_args_is_help=True)
templates = typer.Typer(help="Numbered templates, as IHE MRRT files.", no_args_is_help=True)
codes = typer.Typer(help="The billing code map, as a CSV.", no_args_is_help=True)

_SiteId = Annotated[str, typer.Argument(metavar="SITE_ID")]
_Number = Annotated[int, typer.Argument(metavar="NUMBER", min=1, max=999_999_999)]
_File = Annotated[Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="UTF-8.")]


@groups.command("list")
def list_groups(site_id: _SiteId, home: Home, as_json: AsJson = False) -> None:
    """List a site's prelim groups."""
    from bridge.admin import site_supplies

    with open_engine(home) as engine:
        found = site_supplies.groups(engine, site_id)
    print_rows(found, ("name", "tags", "members", "reviewers"), as_json=as_json)


@groups.command("set")
def set_group(
    site_id: _SiteId,
    name: Annotated[str, typer.Argument(metavar="GROUP")],
    home: Home,
    tag: Annotated[list[str], typer.Option(help="A prelimTag; repeat.")],
    member: Annotated[
        list[str] | None, typer.Option(help="E-mail address of a reader; repeat.")
    ] = None,
    reviewer: Annotated[
        list[str] | None, typer.Option(help="Default: all users in no group; repeat.")
    ] = None,
) -> None:
    """Create or replace a prelim group."""
    from bridge.admin import site_supplies

    with open_engine(home) as engine:
        site_supplies.set_group(engine, site_id, name, tag, member or (), reviewer)
    print(f"set group {name} of site {site_id}")


@templates.command("list")
def list_templates(site_id: _SiteId, home: Home, as_json: AsJson = False) -> None:
    """List a site's templates; --json shows their documents."""
    from bridge.admin import site_supplies

    with open_engine(home) as engine:
        print_rows(site_supplies.templates(engine, site_id), ("number", "name"), as_json=as_json)


@templates.command("import")
def import_template(
    site_id: _SiteId,
    number: _Number,
    file: _File,
    home: Home,
    name: Annotated[str, typer.Option(help="Default: the file's own title.")] = "",
) -> None:
    """Create or replace a template from the text, sections and fields of a file."""
    from bridge.admin import site_supplies

    with open_engine(home) as engine:
        text = file.read_text("utf-8-sig", "replace")
        title = site_supplies.import_template(engine, site_id, number, text, name)
    print(f"template {number} of site {site_id} is {title}")


@templates.command("export")
def export_template(site_id: _SiteId, number: _Number, home: Home) -> None:
    """Write a template to standard output."""
    from bridge.admin import site_supplies

    with open_engine(home) as engine:
        print(site_supplies.export_template(engine, site_id, number))


@templates.command("remove")
def remove_template(site_id: _SiteId, number: _Number, home: Home) -> None:
    """Remove a template."""
    from bridge.admin import site_supplies

    with open_engine(home) as engine:
        site_supplies.remove_template(engine, site_id, number)
    print(f"removed template {number} of site {site_id}")


@codes.command("import")
def import_codes(site_id: _SiteId, file: _File, home: Home) -> None:
    """Replace the code map with a CSV: system,match,code,description."""
    from bridge.admin import site_supplies

    with open_engine(home) as engine:
        count = site_supplies.import_codes(engine, site_id, file.read_text("utf-8-sig", "replace"))
    print(f"the code map of site {site_id} has {count} rows")


@codes.command("export")
def export_codes(site_id: _SiteId, home: Home) -> None:
    """Write the code map to standard output."""
    from bridge.admin import site_supplies

    with open_engine(home) as engine:
        print(site_supplies.code_map(engine, site_id), end="")


group = typer.Typer(help="Sites of the internal report engine.", no_args_is_help=True)
group.add_typer(groups, name="groups")
group.add_typer(templates, name="templates")
group.add_typer(codes, name="codes")

_COLUMNS = ("SiteID", "name", "timeZone", "signDelay", "locations", "hostOrigins")


@group.command()
def add(
    site_id: _SiteId,
    home: Home,
    name: Annotated[str, typer.Option(help="Display name.")] = "",
    time_zone: Annotated[str, typer.Option(help="IANA zone, such as Europe/Vienna.")] = "UTC",
    sign_delay: Annotated[
        int, typer.Option(min=0, max=86_400, help="Seconds in which a signature can be recalled.")
    ] = 0,
    location: Annotated[list[str] | None, typer.Option(help="A SiteLocation; repeat.")] = None,
    host_origin: Annotated[
        list[str] | None, typer.Option(help="An origin that may embed the app; repeat.")
    ] = None,
) -> None:
    """Add a site; an existing site is refused and not changed."""
    with open_engine(home) as engine:
        engine.add_site(
            site_id,
            name=name or site_id,
            time_zone=time_zone,
            sign_delay=sign_delay,
            locations=tuple(location or ()),
            host_origins=tuple(host_origin or ()),
        )
    print(f"added site {site_id}")


@group.command("list")
def list_(home: Home, as_json: AsJson = False) -> None:
    """List all sites."""
    with open_engine(home) as engine:
        print_rows(engine.sites(), _COLUMNS, as_json=as_json)


@group.command()
def show(site_id: _SiteId, home: Home, as_json: AsJson = False) -> None:
    """Show the settings of a site; images are shown with --json only."""
    with open_engine(home) as engine:
        site = engine.site(site_id)
    images = {name: site[name] for name in ("headerImg", "footerImg")}
    if not as_json:
        site |= {name: "set" if image else "none" for name, image in images.items()}
    print_record(site, {}, as_json=as_json)


@group.command("set")
def set_(
    site_id: _SiteId,
    home: Home,
    settings: Annotated[
        list[str],
        typer.Argument(metavar="NAME=VALUE…", help="signDelay=60, settings.AppLanguage=de-DE, …"),
    ],
) -> None:
    """
    Change settings of a site, by the names that `show` prints.

    A value is JSON, or text if it is no JSON. `null` restores the default. Write an image as
    `headerImg=@FILE` or `footerImg=@FILE`, and locations and hostOrigins as JSON lists.
    """
    from bridge.cli.options import read_assignments

    changes = read_assignments(settings)
    with open_engine(home) as engine:
        engine.change_site(site_id, changes)
    print(f"changed site {site_id}: {', '.join(sorted(changes))}")
