"""`bridge site`: the sites of the internal report engine, with groups, templates and codes."""

import csv
import sys
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
    with open_engine(home) as engine:
        found = engine.call("GET", "sites", site_id, "prelim-groups")
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
    body = {"name": name, "tags": tag, "members": member or [], "reviewers": reviewer}
    with open_engine(home) as engine:
        engine.call("POST", "sites", site_id, "prelim-groups", body=body)
    print(f"set group {name} of site {site_id}")


@templates.command("list")
def list_templates(site_id: _SiteId, home: Home, as_json: AsJson = False) -> None:
    """List a site's templates; --json shows their documents."""
    with open_engine(home) as engine:
        found = engine.call("GET", "sites", site_id, "templates")
    print_rows(found, ("number", "name"), as_json=as_json)


@templates.command("import")
def import_template(
    site_id: _SiteId,
    number: _Number,
    file: _File,
    home: Home,
    name: Annotated[str, typer.Option(help="Default: the file's own title.")] = "",
) -> None:
    """Create or replace a template from the text, sections and fields of a file."""
    body = {"html": file.read_text("utf-8-sig", "replace"), "name": name}
    path = ("sites", site_id, "templates")
    with open_engine(home) as engine:
        engine.call("PUT", *path, str(number), "mrrt", body=body)
        found = engine.call("GET", *path)
    title = next(template["name"] for template in found if template["number"] == number)
    print(f"template {number} of site {site_id} is {title}")


@templates.command("export")
def export_template(site_id: _SiteId, number: _Number, home: Home) -> None:
    """Write a template to standard output."""
    with open_engine(home) as engine:
        found = engine.call("GET", "sites", site_id, "templates", str(number), "mrrt")
    print(found["html"])


@templates.command("remove")
def remove_template(site_id: _SiteId, number: _Number, home: Home) -> None:
    """Remove a template."""
    with open_engine(home) as engine:
        engine.call("DELETE", "sites", site_id, "templates", str(number))
    print(f"removed template {number} of site {site_id}")


@codes.command("import")
def import_codes(site_id: _SiteId, file: _File, home: Home) -> None:
    """Replace the code map with a CSV: system,match,code,description."""
    body = {"csv": file.read_text("utf-8-sig", "replace")}
    with open_engine(home) as engine:
        engine.call("PUT", "sites", site_id, "code-map", body=body)
        count = len(engine.call("GET", "sites", site_id, "code-map"))
    print(f"the code map of site {site_id} has {count} rows")


@codes.command("export")
def export_codes(site_id: _SiteId, home: Home) -> None:
    """Write the code map to standard output."""
    with open_engine(home) as engine:
        rows = engine.call("GET", "sites", site_id, "code-map")
    writer = csv.DictWriter(
        sys.stdout, ("system", "match", "code", "description"), lineterminator="\n"
    )
    writer.writeheader()
    writer.writerows(rows)


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
    body = {
        "SiteID": site_id,
        "name": name or site_id,
        "timeZone": time_zone,
        "signDelay": sign_delay,
        "locations": location or [],
        "hostOrigins": host_origin or [],
    }
    with open_engine(home) as engine:
        engine.call("POST", "sites", body=body)
    print(f"added site {site_id}")


@group.command("list")
def list_(home: Home, as_json: AsJson = False) -> None:
    """List all sites."""
    with open_engine(home) as engine:
        found = engine.call("GET", "sites")
    print_rows(found, _COLUMNS, as_json=as_json)


@group.command()
def show(site_id: _SiteId, home: Home, as_json: AsJson = False) -> None:
    """Show the settings of a site; images are shown with --json only."""
    with open_engine(home) as engine:
        site = engine.call("GET", "sites", site_id)
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
    from bridge.admin.errors import EngineRefusal
    from bridge.cli.options import read_assignments

    changes = read_assignments(settings)
    with open_engine(home) as engine:
        known = engine.call("GET", "sites", site_id).keys() - {"SiteID"}
        if unknown := sorted(changes.keys() - known):
            raise EngineRefusal(400, "invalid_request", f"a site has no {', '.join(unknown)}")
        engine.call("PATCH", "sites", site_id, body=changes)
    print(f"changed site {site_id}: {', '.join(sorted(changes))}")
