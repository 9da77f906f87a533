"""`bridge console`: who may do what in the admin console."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.options import AsJson, Home

if TYPE_CHECKING:
    from bridge.console.permissions import Grant, Role

group = typer.Typer(help="Who may do what in the admin console.", no_args_is_help=True)

_Email = Annotated[str, typer.Argument(metavar="EMAIL", help="An account of the report engine.")]


def _role(text: str) -> "Role":
    from bridge.console.permissions import Role

    if text not in set(Role):
        raise typer.BadParameter(f"--role must be one of {', '.join(Role)}")
    return Role(text)


def _sensible(given: "Grant") -> None:
    from bridge.console.permissions import EVERYWHERE, Role

    if given.role is Role.SITE_ADMINISTRATOR and not given.sites:
        raise typer.BadParameter("a site administrator needs --site")
    if given.role in EVERYWHERE and given.sites:
        raise typer.BadParameter(f"--site limits no {given.role}: it is for all sites")


@group.command()
def grant(
    email: _Email,
    home: Home,
    role: Annotated[str, typer.Option(help="viewer, operator, mapping-author, …")],
    bodies: Annotated[
        bool, typer.Option("--bodies", help="May read what messages say: patient data.")
    ] = False,
    site: Annotated[
        list[str] | None,
        typer.Option("--site", metavar="SITE_ID", help="Sees and changes this site only; again."),
    ] = None,
) -> None:
    """Give an account a role in the console, in the place of the one it had."""
    import time

    from bridge.console.grants import give
    from bridge.console.permissions import Grant
    from bridge.console.trail import Deed, note
    from bridge.wiring.administration import administer
    from bridge.wiring.commanding import operator
    from bridge.wiring.stores import bridge_database
    from config import load

    now, by = time.time_ns() // 1_000_000, operator()
    given = Grant(email, _role(role), bodies, frozenset(site) if site else None)
    _sensible(given)
    with bridge_database(home) as database:
        give(database, given, now, by)
        note(database, Deed(by, "grant", f"{given.email} {given.role}"), now)
    print(f"{email} is {role} in the console")
    settings = load(home)
    if not settings.engine.is_internal:
        return
    with administer(settings) as engine:
        if not engine.has_account(email):
            print(f"note: nobody signs in as {email} so far: see `bridge user`", file=sys.stderr)


@group.command()
def revoke(email: _Email, home: Home) -> None:
    """Take an account's role in the console away."""
    import time

    from bridge.console.grants import take
    from bridge.console.trail import Deed, note
    from bridge.wiring.commanding import operator
    from bridge.wiring.stores import bridge_database

    with bridge_database(home) as database:
        if not take(database, email):
            print(f"{email} had no role in the console")
            sys.exit(1)
        note(database, Deed(operator(), "revoke", email), time.time_ns() // 1_000_000)
    print(f"{email} has no role in the console any more")


@group.command("list")
def list_(home: Home, as_json: AsJson = False) -> None:
    """List who has which role."""
    from dataclasses import asdict

    from bridge.cli.show import rows
    from bridge.console.grants import everybody
    from bridge.wiring.stores import bridge_database

    with bridge_database(home) as database:
        found = [asdict(each) for each in everybody(database)]
    told = [{**each, "sites": sorted(each["sites"] or ())} for each in found]
    rows(told, ("email", "role", "bodies", "sites"), as_json=as_json)
