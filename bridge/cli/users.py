"""`bridge user`: people of the internal report engine."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from bridge.cli.options import AsJson, Home

group = typer.Typer(help="Users of the internal report engine.", no_args_is_help=True)

_COLUMNS = ("email", "name", "role", "disabled")


@group.command()
def add(
    email: Annotated[str, typer.Argument(metavar="EMAIL")],
    home: Home,
    name: Annotated[str, typer.Option(help="As it stands under reports.")],
    site: Annotated[str, typer.Option(metavar="SITE_ID")],
    admin: Annotated[bool, typer.Option("--admin", help="Site administrator.")] = False,
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read a password from standard input.")
    ] = False,
) -> None:
    """Add a user to a site, or change their name or role there; prints an enrolment link."""
    from bridge.admin.engine_administration import administer
    from config import load

    password = sys.stdin.readline().rstrip("\r\n") if password_stdin else None
    if password == "":
        raise typer.BadParameter("standard input held no password")
    with administer(load(home)) as engine:
        link = engine.add_user(
            email, name=name, site_id=site, administrator=admin, password=password
        )
    print(f"added {email} to site {site}")
    if link is not None:
        print(link)


@group.command()
def enrol(
    email: Annotated[str, typer.Argument(metavar="EMAIL")],
    home: Home,
    end_tokens: Annotated[
        bool, typer.Option("--end-tokens", help="Revoke the user's access tokens too.")
    ] = False,
) -> None:
    """End a user's password, one-time codes and sessions; prints a one-time link."""
    from bridge.admin.engine_administration import administer
    from config import load

    with administer(load(home)) as engine:
        link = engine.enrol_user(email, end_tokens=end_tokens)
    print(link or f"ended the sessions of {email}, who signs in through the provider")


@group.command()
def disable(
    email: Annotated[str, typer.Argument(metavar="EMAIL")],
    home: Home,
    force: Annotated[
        bool, typer.Option("--force", help="Also the last system administrator of the console.")
    ] = False,
) -> None:
    """Disable a user: their sessions, tokens and links end at once, for good."""
    from bridge.admin.engine_administration import administer
    from config import load

    with administer(load(home)) as engine:
        engine.disable_user(email, force=force)
    print(f"disabled {email}")


@group.command()
def enable(email: Annotated[str, typer.Argument(metavar="EMAIL")], home: Home) -> None:
    """Let a disabled user sign in again."""
    from bridge.admin.engine_administration import administer
    from config import load

    with administer(load(home)) as engine:
        engine.enable_user(email)
    print(f"enabled {email}")


@group.command("email")
def change_email(
    email: Annotated[str, typer.Argument(metavar="EMAIL")],
    wanted: Annotated[str, typer.Argument(metavar="NEW_EMAIL")],
    home: Home,
) -> None:
    """Change the e-mail address of a user; their sessions end."""
    from bridge.admin.engine_administration import administer
    from config import load

    with administer(load(home)) as engine:
        engine.change_email(email, wanted)
    print(f"changed {email} to {wanted}")


@group.command("list")
def list_(
    home: Home,
    site: Annotated[str, typer.Option(metavar="SITE_ID")],
    as_json: AsJson = False,
) -> None:
    """List everybody on a site."""
    from bridge.admin.engine_administration import administer
    from bridge.cli.output import rows
    from config import load

    with administer(load(home)) as engine:
        rows(engine.users(site), _COLUMNS, as_json=as_json)


@group.command()
def signature(
    email: Annotated[str, typer.Argument(metavar="EMAIL")],
    home: Home,
    image: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="PNG or JPEG.")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Sign without an image.")] = False,
) -> None:
    """Set the image that stands under a user's reports from now on; signed ones keep theirs."""
    from bridge.admin.engine_administration import administer
    from bridge.admin.site_supplies import set_signature
    from bridge.cli.options import data_uri
    from config import load

    if (image is None) is not remove:
        raise typer.BadParameter("give either --image or --remove")
    with administer(load(home)) as engine:
        set_signature(engine, email, None if image is None else data_uri(image))
    print(f"changed the signature of {email}")
