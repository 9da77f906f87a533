"""
Users of a site and their access tokens; roles in the console, enrolment links, disabled accounts.

Nobody takes over an account that may more here than they do: not by an invitation, not by a
token, not by an enrolment link.
"""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request

from bridge.authority import Action
from bridge.console.access import Administrator, GrantEntry, require_authority
from bridge.console.context import ConsoleContext
from bridge.console.http.bodies import GrantBody
from bridge.console.http.guard import (
    AuditedAction,
    ConsoleUser,
    ContextDep,
    UserDep,
    always_fresh,
    await_audited,
)
from bridge.console.http.route import ConsoleRoute
from bridge.console.http.sites import Json, Name, Site, change
from bridge.console.permissions import Permission
from bridge.engine_client.models import Account, Enrolment

router = APIRouter(prefix="/api", route_class=ConsoleRoute)
Who = Annotated[str, Path(min_length=1, max_length=320)]
"""An e-mail address, or the id of an account."""


@router.post("/sites/{site}/users")
async def set_user(
    site: Site, body: Json, request: Request, user: UserDep, context: ContextDep
) -> Any:
    """
    Invite a user to a site, or change their name or role there.

    A system administrator who invites somebody without an account gets the enrolment `link`.
    """
    email = str(body.get("email", ""))
    path = ("POST", "sites", site, "users")
    known, rule = await _rule(context, user, site, email, Action.INVITE)
    made: dict[str, Any] = await change(
        request,
        user,
        "change user",
        path,
        body,
        subject=f"user {email}",
        rule=rule,
        fresh=always_fresh,
    )
    if known is None and Permission.GRANT in user.grant.permissions:
        invited = str(made.get("email", email))
        link = await await_audited(
            request,
            user,
            _about(invited, "reset account"),
            lambda: context.access.enrol(_administrator(user), invited),
        )
        made |= _enrolment(link)
    return made


@router.delete("/sites/{site}/users/{email}")
async def remove_user(
    site: Site, email: Name, request: Request, user: UserDep, context: ContextDep
) -> Any:
    """Take a user off a site; their reports stay."""
    path = ("DELETE", "sites", site, "users", email)
    _, rule = await _rule(context, user, site, email, Action.REMOVE)
    return await change(request, user, "remove user", path, rule=rule)


@router.post("/sites/{site}/tokens")
async def create_token(
    site: Site, body: Json, request: Request, user: UserDep, context: ContextDep
) -> Any:
    """Make a token for a user of the site; its secret is in this answer and nowhere else."""
    email = str(body.get("email", ""))
    path = ("POST", "sites", site, "tokens")
    _, rule = await _rule(context, user, site, email, Action.CREATE_TOKEN)
    subject = f"user {email}"
    return await change(
        request, user, "create token", path, body, subject=subject, rule=rule, fresh=always_fresh
    )


@router.delete("/sites/{site}/tokens/{token}")
async def revoke_token(
    site: Site, token: int, request: Request, user: UserDep, context: ContextDep
) -> Any:
    """Revoke a token, and the links that were made with it."""
    path = ("DELETE", "sites", site, "tokens", str(token))
    owner = ""
    if Permission.ADMINISTER in user.grant.permissions and user.grant.reaches([site]):
        listed = await context.service.ask("GET", "sites", site, "tokens")
        owner = next((str(each["email"]) for each in listed if each["id"] == token), "")
    _, rule = await _rule(context, user, site, owner, Action.REVOKE_TOKEN)
    return await change(request, user, "revoke token", path, rule=rule)


@router.get("/grants")
async def list_grants(user: UserDep, context: ContextDep) -> dict[str, Any]:
    """List who may do what in the console."""
    user.grant.require(Permission.GRANT)
    return {"rows": [_row(each) for each in await context.access.entries()]}


@router.put("/grants/{who}")
async def give(
    who: Who, body: GrantBody, request: Request, user: UserDep, context: ContextDep
) -> dict[str, Any]:
    """Give a person a role, in the place of the one they had; `link` where they must enrol anew."""
    made = await await_audited(
        request,
        user,
        _about(who, "grant", body.role),
        lambda: context.access.grant(_administrator(user), who, body.grant(who)),
    )
    return _enrolment(made)


@router.delete("/grants/{who}")
async def take(who: Who, request: Request, user: UserDep, context: ContextDep) -> dict[str, Any]:
    """Take a person's role away; nobody takes their own."""
    await await_audited(
        request,
        user,
        _about(who, "revoke"),
        lambda: context.access.revoke(_administrator(user), who),
    )
    return {}


@router.post("/people/{who}/enrolment")
async def enrol(who: Who, request: Request, user: UserDep, context: ContextDep) -> dict[str, Any]:
    """End a person's password and sessions; give a one-time link with which they enrol anew."""
    made = await await_audited(
        request,
        user,
        _about(who, "reset account"),
        lambda: context.access.enrol(_administrator(user), who),
    )
    return _enrolment(made)


@router.post("/people/{who}/disable")
async def disable(who: Who, request: Request, user: UserDep, context: ContextDep) -> dict[str, Any]:
    """Disable an account: its sessions, tokens and links end at once."""
    await _switch(who, request, user, context, disabled=True)
    return {}


@router.post("/people/{who}/enable")
async def enable(who: Who, request: Request, user: UserDep, context: ContextDep) -> dict[str, Any]:
    """Enable an account again."""
    await _switch(who, request, user, context, disabled=False)
    return {}


async def _switch(
    who: str, request: Request, user: ConsoleUser, context: ConsoleContext, *, disabled: bool
) -> None:
    await await_audited(
        request,
        user,
        _about(who, "disable account" if disabled else "enable account"),
        lambda: context.access.set_disabled(_administrator(user), who, disabled=disabled),
    )


def _about(who: str, action: str, role: str = "") -> AuditedAction:
    return AuditedAction((Permission.GRANT,), action, f"{who} {role}".strip(), fresh=always_fresh)


def _administrator(user: ConsoleUser) -> Administrator:
    return Administrator(user.grant.email, user.grant)


def _enrolment(made: Enrolment | None) -> dict[str, Any]:
    return {} if made is None else {"link": made.link, "expiresAt": made.expires_at}


def _row(entry: GrantEntry) -> dict[str, Any]:
    grant = entry.grant
    return {
        "accountId": grant.account_id,
        "email": entry.email,
        "role": grant.role,
        "bodies": grant.bodies,
        "sites": None if grant.sites is None else sorted(grant.sites),
        "pending": entry.pending,
        "secondFactor": entry.second_factor,
        "disabled": entry.disabled,
    }


async def _rule(
    context: ConsoleContext, user: ConsoleUser, site: str, who: str, action: Action
) -> tuple[Account | None, Callable[[], None]]:
    """Give an account, and the rule of `bridge.authority` for an action on it at a site."""
    may = Permission.ADMINISTER in user.grant.permissions
    account, role = await context.access.find(who) if may else (None, None)
    if account is not None and action is Action.INVITE and site in account.sites:
        action = Action.CHANGE_ROLE
    by = _administrator(user)

    def rule() -> None:
        if account is not None:  # else the service says that there is none
            require_authority(by, account, role, action, site=site)

    return account, rule
