"""`bridge site`: the sites of the internal report engine."""

from typing import Annotated

import typer

from bridge.cli import supplies
from bridge.cli.options import AsJson, Home

group = typer.Typer(help="Sites of the internal report engine.", no_args_is_help=True)
group.add_typer(supplies.groups, name="groups")
group.add_typer(supplies.templates, name="templates")
group.add_typer(supplies.codes, name="codes")

_COLUMNS = ("SiteID", "name", "timeZone", "signDelay", "locations", "hostOrigins")
_SiteId = Annotated[str, typer.Argument(metavar="SITE_ID")]


@group.command()
def add(
    site_id: _SiteId,
    home: Home,
    name: Annotated[str, typer.Option(help="What people call it.")] = "",
    time_zone: Annotated[str, typer.Option(help="IANA zone, such as Europe/Vienna.")] = "UTC",
    sign_delay: Annotated[
        int, typer.Option(min=0, max=86_400, help="Seconds in which a signature can be recalled.")
    ] = 0,
    location: Annotated[list[str] | None, typer.Option(help="A SiteLocation; repeat.")] = None,
    host_origin: Annotated[
        list[str] | None, typer.Option(help="An origin that may embed the app; repeat.")
    ] = None,
) -> None:
    """Add a site; an existing one is refused and left as it is."""
    from bridge.wiring.administration import administer
    from config import load

    with administer(load(home)) as engine:
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
    from bridge.cli.show import rows
    from bridge.wiring.administration import administer
    from config import load

    with administer(load(home)) as engine:
        rows(engine.sites(), _COLUMNS, as_json=as_json)


@group.command()
def show(site_id: _SiteId, home: Home, as_json: AsJson = False) -> None:
    """Show a site with all that is set; of images only whether there are any, but for --json."""
    from bridge.cli.show import one
    from bridge.wiring.administration import administer
    from config import load

    with administer(load(home)) as engine:
        site = engine.site(site_id)
    images = {name: site[name] for name in ("headerImg", "footerImg")}
    if not as_json:
        site |= {name: "set" if image else "none" for name, image in images.items()}
    one(site, {}, as_json=as_json)


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
    Change settings of a site, by the names that `show` has for them.

    A value is JSON where it is JSON and text elsewhere; `null` puts the default back. An image is
    `headerImg=@FILE` or `footerImg=@FILE`; locations and hostOrigins are JSON lists.
    """
    from bridge.cli.assignments import read_assignments
    from bridge.wiring.administration import administer
    from config import load

    changes = read_assignments(settings)
    with administer(load(home)) as engine:
        engine.change_site(site_id, changes)
    print(f"changed site {site_id}: {', '.join(sorted(changes))}")
