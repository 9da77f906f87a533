"""`bridge site`: the sites of the internal report engine."""

from typing import Annotated

import typer

from bridge.cli.options import Home

group = typer.Typer(help="Sites of the internal report engine.", no_args_is_help=True)


@group.callback()
def _sites() -> None:
    """Keep `add` a command of its own."""


@group.command()
def add(
    site_id: Annotated[str, typer.Argument(metavar="SITE_ID")],
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
