"""`bridge console`: who may do what in the admin console."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.options import AsJson, Home

if TYPE_CHECKING:
    from bridge.console.permissions import ConsoleRole, Grant

group = typer.Typer(help="Who may do what in the admin console.", no_args_is_help=True)

_COLUMNS = (
    *("account_id", "email", "role", "bodies", "sites"),
    *("pending", "second_factor", "disabled"),
)
_Email = Annotated[str, typer.Argument(metavar="EMAIL", help="An account of the report engine.")]

Force = Annotated[
    bool, typer.Option("--force", help="Also where no system administrator would remain.")
]


def _role(text: str) -> "ConsoleRole":
    from bridge.console.permissions import ConsoleRole

    if text not in set(ConsoleRole):
        raise typer.BadParameter(f"--role must be one of {', '.join(ConsoleRole)}")
    return ConsoleRole(text)


def _sensible(given: "Grant") -> None:
    from bridge.console.permissions import ALL_SITES_ROLES, ConsoleRole

    if given.role is ConsoleRole.SITE_ADMINISTRATOR and not given.sites:
        raise typer.BadParameter("a site administrator needs --site")
    if given.role in ALL_SITES_ROLES and given.sites:
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
    pending: Annotated[
        bool, typer.Option("--pending", help="Make the account where there is none yet.")
    ] = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """
    Give an account a role in the console, in the place of the one it had.

    Where that widens what the account may, its password, sessions and tokens end. Its owner
    enrols anew with the link that is printed.
    """
    import json

    from bridge.admin.console_access import console_access
    from bridge.cli.output import iso
    from bridge.console.permissions import Grant

    given = Grant(email, _role(role), bodies, frozenset(site) if site else None)
    _sensible(given)
    with console_access(home) as console:
        made = console.grant(email, given, pending=pending, force=force)
    link = None if made is None else made.link
    if as_json:
        until = None if made is None else iso(made.expires_at)
        print(json.dumps({"email": email, "role": role, "link": link, "expiresAt": until}))
        return
    print(f"{email} is {role} in the console")
    if link is not None:
        print(link)


@group.command()
def revoke(email: _Email, home: Home, force: Force = False) -> None:
    """Take an account's role in the console away."""
    from bridge.admin.console_access import console_access
    from bridge.console.errors import NoSuchItem

    with console_access(home) as console:
        try:
            console.revoke(email, force=force)
        except NoSuchItem:
            print(f"{email} had no role in the console")
            sys.exit(1)
    print(f"{email} has no role in the console any more")


@group.command("list")
def list_(home: Home, as_json: AsJson = False) -> None:
    """List who has which role, and whether they can use it."""
    from bridge.admin.console_access import console_access
    from bridge.cli.output import rows

    with console_access(home) as console:
        found = console.entries()
    told = [
        {
            "account_id": each.grant.account_id,
            "email": each.email,
            "role": each.grant.role.value,
            "bodies": each.grant.bodies,
            "sites": sorted(each.grant.sites or ()),
            "pending": each.pending,
            "second_factor": each.second_factor,
            "disabled": each.disabled,
        }
        for each in found
    ]
    rows(told, _COLUMNS, as_json=as_json)
