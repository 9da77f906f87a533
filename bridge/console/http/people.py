"""
Users of a site and their access tokens; console roles, enrolment links and disabled accounts.

Nobody obtains an account with more rights than their own: an invitation, a token and an enrolment
link for such an account are refused (`bridge.authority`).
"""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Path

from bridge.admin.access.access_administration import Administrator, GrantEntry, require_authority
from bridge.admin.access.permissions import Permission
from bridge.authority import AccountAction
from bridge.console.http.bodies import GrantBody
from bridge.console.http.guard import (
    AuditedAction,
    CallDep,
    ConsoleCall,
    ConsoleRoute,
    ConsoleUser,
    always_fresh,
    await_audited,
)
from bridge.console.http.site_administration import JsonBody, Name, Site, change
from bridge.contract.responses import AccountInfo, EnrolmentLink

router = APIRouter(prefix="/api", route_class=ConsoleRoute)
EmailOrId = Annotated[str, Path(min_length=1, max_length=320)]
"""An e-mail address, or the id of an account."""


@router.post("/sites/{site}/users")
async def set_user(site: Site, body: JsonBody, call: CallDep) -> Any:
    """
    Invite a user to a site, or change their name or role there.

    If the user has no account yet, a system administrator gets the enrolment `link`.
    """
    email = str(body.get("email", ""))
    path = ("POST", "sites", site, "users")
    known, rule = await _rule(call, site, email, AccountAction.INVITE)
    response: dict[str, Any] = await change(
        call, "change user", path, body, subject=f"user {email}", rule=rule, fresh=always_fresh
    )
    if known is None and Permission.GRANT in call.user.grant.permissions:
        invited = str(response.get("email", email))
        link = await await_audited(
            call,
            _action(invited, "reset account"),
            lambda: call.context.access.enrol(_administrator(call.user), invited),
        )
        response |= _enrolment(link)
    return response


@router.delete("/sites/{site}/users/{email}")
async def remove_user(site: Site, email: Name, call: CallDep) -> Any:
    """Remove a user from a site; their reports stay."""
    path = ("DELETE", "sites", site, "users", email)
    _, rule = await _rule(call, site, email, AccountAction.REMOVE)
    return await change(call, "remove user", path, rule=rule)


@router.post("/sites/{site}/tokens")
async def create_token(site: Site, body: JsonBody, call: CallDep) -> Any:
    """Create a token for a user of the site; only this response contains its secret."""
    email = str(body.get("email", ""))
    path = ("POST", "sites", site, "tokens")
    _, rule = await _rule(call, site, email, AccountAction.CREATE_TOKEN)
    subject = f"user {email}"
    return await change(
        call, "create token", path, body, subject=subject, rule=rule, fresh=always_fresh
    )


@router.delete("/sites/{site}/tokens/{token}")
async def revoke_token(site: Site, token: int, call: CallDep) -> Any:
    """Revoke a token, and the report links that were created with it."""
    path = ("DELETE", "sites", site, "tokens", str(token))
    owner = ""
    if Permission.ADMINISTER in call.user.grant.permissions and call.user.grant.sees([site]):
        listed = await call.context.engine.call("GET", "sites", site, "tokens")
        owner = next((str(each["email"]) for each in listed if each["id"] == token), "")
    _, rule = await _rule(call, site, owner, AccountAction.REVOKE_TOKEN)
    return await change(call, "revoke token", path, rule=rule)


@router.get("/grants")
async def list_grants(call: CallDep) -> dict[str, Any]:
    """List the console roles of all accounts."""
    call.user.grant.require(Permission.GRANT)
    return {"rows": [_row(entry) for entry in await call.context.access.entries()]}


@router.put("/grants/{email_or_id}")
async def assign_role(email_or_id: EmailOrId, body: GrantBody, call: CallDep) -> dict[str, Any]:
    """Assign a role to an account; `link`: the owner must enrol again."""
    link = await await_audited(
        call,
        _action(email_or_id, "grant", body.role),
        lambda: call.context.access.grant(
            _administrator(call.user), email_or_id, body.grant(email_or_id)
        ),
    )
    return _enrolment(link)


@router.delete("/grants/{email_or_id}")
async def remove_role(email_or_id: EmailOrId, call: CallDep) -> dict[str, Any]:
    """Remove the role of an account; nobody removes their own."""
    await await_audited(
        call,
        _action(email_or_id, "revoke"),
        lambda: call.context.access.revoke(_administrator(call.user), email_or_id),
    )
    return {}


@router.post("/people/{email_or_id}/enrolment")
async def enrol(email_or_id: EmailOrId, call: CallDep) -> dict[str, Any]:
    """End password and sessions of an account; return a one-time enrolment link."""
    link = await await_audited(
        call,
        _action(email_or_id, "reset account"),
        lambda: call.context.access.enrol(_administrator(call.user), email_or_id),
    )
    return _enrolment(link)


@router.post("/people/{email_or_id}/disable")
async def disable(email_or_id: EmailOrId, call: CallDep) -> dict[str, Any]:
    """Disable an account; its sessions, tokens and links end immediately."""
    await _set_disabled(email_or_id, call, disabled=True)
    return {}


@router.post("/people/{email_or_id}/enable")
async def enable(email_or_id: EmailOrId, call: CallDep) -> dict[str, Any]:
    """Enable an account again."""
    await _set_disabled(email_or_id, call, disabled=False)
    return {}


async def _set_disabled(email_or_id: str, call: ConsoleCall, *, disabled: bool) -> None:
    await await_audited(
        call,
        _action(email_or_id, "disable account" if disabled else "enable account"),
        lambda: call.context.access.set_disabled(
            _administrator(call.user), email_or_id, disabled=disabled
        ),
    )


def _action(email_or_id: str, action: str, role: str = "") -> AuditedAction:
    return AuditedAction(
        (Permission.GRANT,), action, f"{email_or_id} {role}".strip(), fresh=always_fresh
    )


def _administrator(user: ConsoleUser) -> Administrator:
    return Administrator(user.grant.email, user.grant)


def _enrolment(link: EnrolmentLink | None) -> dict[str, Any]:
    return {} if link is None else {"link": link.link, "expiresAt": link.expires_at}


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
    call: ConsoleCall, site: str, email_or_id: str, action: AccountAction
) -> tuple[AccountInfo | None, Callable[[], None]]:
    """Return an account, and the rule of `bridge.authority` for an action on it at a site."""
    may_administer = Permission.ADMINISTER in call.user.grant.permissions
    account, role = await call.context.access.find(email_or_id) if may_administer else (None, None)
    if account is not None and action is AccountAction.INVITE and site in account.sites:
        action = AccountAction.CHANGE_ROLE
    by = _administrator(call.user)

    def rule() -> None:
        if account is not None:  # else the report engine refuses the request
            require_authority(by, account, role, action, site=site)

    return account, rule
