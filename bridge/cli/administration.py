"""
`bridge site`, `user`, `token`, `console`: sites with their contents, accounts, and console roles.

The commands call the administrative endpoints of the report engine in their own process.
"""

import csv
import sys
from pathlib import Path
from typing import Annotated

import typer

from bridge.cli.options import AsJson, Home, open_engine
from bridge.cli.output import iso, print_record, print_rows, with_times

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


sites = typer.Typer(help="Sites of the internal report engine.", no_args_is_help=True)
sites.add_typer(groups, name="groups")
sites.add_typer(templates, name="templates")
sites.add_typer(codes, name="codes")

_COLUMNS = ("SiteID", "name", "timeZone", "signDelay", "locations", "hostOrigins")


@sites.command()
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


@sites.command("list")
def list_(home: Home, as_json: AsJson = False) -> None:
    """List all sites."""
    with open_engine(home) as engine:
        found = engine.call("GET", "sites")
    print_rows(found, _COLUMNS, as_json=as_json)


@sites.command()
def show(site_id: _SiteId, home: Home, as_json: AsJson = False) -> None:
    """Show the settings of a site; images are shown with --json only."""
    with open_engine(home) as engine:
        site = engine.call("GET", "sites", site_id)
    images = {name: site[name] for name in ("headerImg", "footerImg")}
    if not as_json:
        site |= {name: "set" if image else "none" for name, image in images.items()}
    print_record(site, {}, as_json=as_json)


@sites.command("set")
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


users = typer.Typer(help="Users of the internal report engine.", no_args_is_help=True)

tokens = typer.Typer(help="Access tokens of the internal report engine.", no_args_is_help=True)

_USER_COLUMNS = ("email", "name", "role", "disabled")
_TOKEN_COLUMNS = (
    *("id", "email", "label", "service", "scopes"),
    *("created_at", "expires_at", "last_used_at", "revoked_at"),
)
_Email = Annotated[str, typer.Argument(metavar="EMAIL")]


@users.command("add")
def add_user(
    email: _Email,
    home: Home,
    name: Annotated[str, typer.Option(help="The name below reports.")],
    site: Annotated[str, typer.Option(metavar="SITE_ID")],
    admin: Annotated[bool, typer.Option("--admin", help="Site administrator.")] = False,
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read a password from standard input.")
    ] = False,
    console_role: Annotated[
        str, typer.Option("--console", metavar="ROLE", help="Also a role in the console.")
    ] = "",
    bodies: Annotated[
        bool, typer.Option("--bodies", help="With --console: may read messages: patient data.")
    ] = False,
) -> None:
    """
    Add a user to a site, or change their name or role there; prints an enrolment link.

    Each new link ends the earlier ones. For a user of the console too, `--console ROLE` gives both
    rights with one link.
    """
    from bridge.admin.access.access_administration import console_access
    from bridge.admin.access.permissions import Grant, InvalidGrant

    if bodies and not console_role:
        raise typer.BadParameter("--bodies needs --console")
    try:
        grant = Grant.of(email, console_role, None, bodies=bodies) if console_role else None
    except InvalidGrant as error:
        raise typer.BadParameter(str(error)) from None
    password = sys.stdin.readline().rstrip("\r\n") if password_stdin else None
    if password == "":
        raise typer.BadParameter("standard input contains no password")
    role = "administrator" if admin else "user"
    body = {"email": email, "name": name, "role": role}
    if password is not None:
        body["password"] = password
    with open_engine(home) as engine:
        link = engine.call("POST", "sites", site, "users", body=body)["link"]
    print(f"added {email} to site {site}")
    if grant is not None:
        with console_access(home) as access:
            enrolment = access.grant(email, grant, pending=False, force=False)
        print(f"{email} is {console_role} in the console")
        link = link if enrolment is None else enrolment.link
    if link is not None:
        print(link)


@users.command()
def enrol(
    email: _Email,
    home: Home,
    end_tokens: Annotated[
        bool, typer.Option("--end-tokens", help="Revoke the user's access tokens too.")
    ] = False,
) -> None:
    """End a user's password, one-time codes and sessions; prints an enrolment link."""
    with open_engine(home) as opened:
        account = opened.run(opened.engine.account(email))
        required = account is not None and account.second_factor_required
        link = opened.run(
            opened.engine.enrol(email, second_factor=required, end_tokens=end_tokens)
        ).link
    print(link or f"ended the sessions of {email}, who signs in through the provider")


@users.command()
def disable(
    email: _Email,
    home: Home,
    force: Annotated[
        bool, typer.Option("--force", help="Also the last system administrator of the console.")
    ] = False,
) -> None:
    """Disable a user; their sessions, tokens and links end immediately and permanently."""
    from bridge.admin.access.access_administration import disable_user

    disable_user(home, email, force=force)
    print(f"disabled {email}")


@users.command()
def enable(email: _Email, home: Home) -> None:
    """Allow a disabled user to sign in again."""
    with open_engine(home) as opened:
        opened.run(opened.engine.set_disabled(email, disabled=False))
    print(f"enabled {email}")


@users.command("email")
def change_email(
    email: _Email, wanted: Annotated[str, typer.Argument(metavar="NEW_EMAIL")], home: Home
) -> None:
    """Change the e-mail address of a user; their sessions end."""
    with open_engine(home) as engine:
        body = {"accountId": email, "email": wanted}
        engine.call("POST", "operator", "accounts", "email", body=body)
    print(f"changed {email} to {wanted}")


@users.command("list")
def list_users(
    home: Home, site: Annotated[str, typer.Option(metavar="SITE_ID")], as_json: AsJson = False
) -> None:
    """List the users of a site."""
    with open_engine(home) as engine:
        users = engine.call("GET", "sites", site, "users")
    print_rows(users, _USER_COLUMNS, as_json=as_json)


@users.command()
def signature(
    email: _Email,
    home: Home,
    image: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="PNG or JPEG.")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Sign without an image.")] = False,
) -> None:
    """Set the signature image of a user for future reports; signed reports keep theirs."""
    from bridge.cli.options import data_uri

    if (image is None) is not remove:
        raise typer.BadParameter("give either --image or --remove")
    with open_engine(home) as engine:
        body = {"email": email, "signature": None if image is None else data_uri(image)}
        engine.call("PUT", "operator", "accounts", "signature", body=body)
    print(f"changed the signature of {email}")


@tokens.command("create")
def create_token(
    home: Home,
    user: Annotated[str, typer.Option(metavar="EMAIL", help="The owner of the token.")],
    label: Annotated[str, typer.Option(help="The purpose of the token.")] = "",
    expires_days: Annotated[int | None, typer.Option(min=1, max=3650)] = None,
) -> None:
    """Create an access token; prints the token and nothing else."""
    with open_engine(home) as engine:
        body = {"email": user, "label": label, "expiresDays": expires_days}
        print(engine.call("POST", "operator", "tokens", body=body)["token"])


@tokens.command("list")
def list_tokens(
    home: Home,
    site: Annotated[
        str | None, typer.Option(metavar="SITE_ID", help="Only tokens of its users.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List tokens, newest first, without their secrets."""
    with open_engine(home) as engine:
        found = engine.call("GET", "operator", "tokens", query={"site": site} if site else None)
    found = [with_times(token) for token in found]
    print_rows(found, _TOKEN_COLUMNS, as_json=as_json)


@tokens.command("revoke")
def revoke_token(
    token_id: Annotated[int, typer.Argument(metavar="ID", help="From `bridge token list`.")],
    home: Home,
) -> None:
    """Revoke a token, and the links that were created with it."""
    with open_engine(home) as engine:
        engine.call("DELETE", "operator", "tokens", str(token_id))
    print(f"revoked token {token_id}")


console = typer.Typer(help="Roles of accounts in the console.", no_args_is_help=True)

_GRANT_COLUMNS = (
    *("account_id", "email", "role", "bodies", "sites"),
    *("pending", "second_factor", "disabled"),
)
_AccountEmail = Annotated[
    str, typer.Argument(metavar="EMAIL", help="An account of the report engine.")
]

Force = Annotated[
    bool, typer.Option("--force", help="Also if no system administrator would remain.")
]


@console.command("grant")
def console_grant(
    email: _AccountEmail,
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

    from bridge.admin.access.access_administration import console_access
    from bridge.admin.access.permissions import Grant, InvalidGrant

    try:
        wanted = Grant.of(email, role, site, bodies=bodies)
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
        print("earlier links of the account and its password have ended", file=sys.stderr)
        print(link)


@console.command("revoke")
def console_revoke(email: _AccountEmail, home: Home, force: Force = False) -> None:
    """Revoke the role of an account in the console."""
    from bridge.admin.access.access_administration import console_access

    with console_access(home) as console:
        revoked = console.revoke(email, force=force)
    if not revoked:
        print(f"{email} had no role in the console")
        sys.exit(1)
    print(f"{email} has no role in the console any more")


@console.command("list")
def console_list(home: Home, as_json: AsJson = False) -> None:
    """List the accounts with a role, and whether they can use it."""
    from bridge.admin.access.access_administration import console_access

    with console_access(home) as console:
        entries = console.entries()
    found = [
        {
            "account_id": entry.grant.account_id,
            "email": entry.email,
            "role": entry.grant.role.value,
            "bodies": entry.grant.bodies,
            "sites": sorted(entry.grant.sites or ()),
            "pending": entry.pending,
            "second_factor": entry.second_factor,
            "disabled": entry.disabled,
        }
        for entry in entries
    ]
    print_rows(found, _GRANT_COLUMNS, as_json=as_json)
