"""`bridge console`: the roles of accounts in the console."""

import sys
from typing import Annotated

import typer

from bridge.cli.options import AsJson, Home

group = typer.Typer(help="Roles of accounts in the console.", no_args_is_help=True)

_COLUMNS = (
    *("account_id", "email", "role", "bodies", "sites"),
    *("pending", "second_factor", "disabled"),
)
_Email = Annotated[str, typer.Argument(metavar="EMAIL", help="An account of the report engine.")]

Force = Annotated[
    bool, typer.Option("--force", help="Also if no system administrator would remain.")
]


@group.command()
def grant(
    email: _Email,
    home: Home,
    role: Annotated[str, typer.Option(help="viewer, operator, mapping-author, …")],
    bodies: Annotated[
        bool, typer.Option("--bodies", help="May read the content of messages: patient data.")
    ] = False,
    site: Annotated[
        list[str] | None,
        typer.Option("--site", metavar="SITE_ID", help="Limit the role to this site; repeat."),
    ] = None,
    pending: Annotated[
        bool, typer.Option("--pending", help="Create the account if it does not exist.")
    ] = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """
    Give an account a role in the console; it replaces the account's previous role.

    If the new role permits more than the previous one, the password, sessions and tokens of the
    account end. Its owner enrols again with the printed link.
    """
    import json

    from bridge.admin.console_access import InvalidGrant, console_access, make_grant
    from bridge.cli.output import iso

    try:
        wanted = make_grant(email, role, site, bodies=bodies)
    except InvalidGrant as error:
        raise typer.BadParameter(str(error)) from None
    with console_access(home) as console:
        enrolment = console.grant(email, wanted, pending=pending, force=force)
    link = None if enrolment is None else enrolment.link
    if as_json:
        until = None if enrolment is None else iso(enrolment.expires_at)
        print(json.dumps({"email": email, "role": role, "link": link, "expiresAt": until}))
        return
    print(f"{email} is {role} in the console")
    if link is not None:
        print(link)


@group.command()
def revoke(email: _Email, home: Home, force: Force = False) -> None:
    """Revoke the role of an account in the console."""
    from bridge.admin.console_access import console_access

    with console_access(home) as console:
        revoked = console.revoke(email, force=force)
    if not revoked:
        print(f"{email} had no role in the console")
        sys.exit(1)
    print(f"{email} has no role in the console any more")


@group.command("list")
def list_(home: Home, as_json: AsJson = False) -> None:
    """List the accounts with a role, and whether they can use it."""
    from bridge.admin.console_access import console_access
    from bridge.cli.output import print_rows

    with console_access(home) as console:
        entries = console.entries()
    found = [
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
        for each in entries
    ]
    print_rows(found, _COLUMNS, as_json=as_json)
