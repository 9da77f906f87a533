"""
Sites: settings, templates, prelim groups, billing codes, worklist, users and tokens; accounts.

Accounts: console roles, enrolment links and disabled accounts. The report engine validates the
request bodies about sites; its error texts are passed on to the user. Nobody obtains an account
with more rights than their own: an invitation, a token and an enrolment link for such an account
are refused (`bridge.authority`).
"""

from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Body, Path

from bridge.admin.access.access_administration import Administrator, GrantEntry, require_authority
from bridge.admin.access.permissions import Permission
from bridge.admin.errors import PermissionDenied
from bridge.authority import AccountAction
from bridge.console.http.guard import (
    AuditedAction,
    CallDep,
    ConsoleCall,
    ConsoleRoute,
    ConsoleUser,
    always_fresh,
    await_audited,
    require_on_site,
)
from bridge.console.http.models.bodies import GrantBody, WorklistSearchBody
from bridge.contract.requests import TemplateNumber
from bridge.contract.responses import AccountInfo, EnrolmentLink, moment

router = APIRouter(prefix="/api/sites", route_class=ConsoleRoute)
Site = Annotated[str, Path(min_length=1, max_length=128)]
Name = Annotated[str, Path(min_length=1, max_length=320)]
JsonBody = Annotated[dict[str, Any], Body()]
ADMINISTER = (Permission.ADMINISTER,)


@router.get("")
async def sites(call: CallDep) -> list[dict[str, Any]]:
    """List the user's sites; users who do not administer them see id and name only."""
    call.user.grant.require(Permission.FIND)
    found = await call.context.engine.call("GET", "sites")
    visible = [row for row in found if call.user.grant.sees([row["SiteID"]])]
    if Permission.ADMINISTER not in call.user.grant.permissions:
        visible = [{"SiteID": row["SiteID"], "name": row["name"]} for row in visible]
    return visible


@router.post("", status_code=201)
async def add_site(body: JsonBody, call: CallDep) -> dict[str, Any]:
    """Add a site; only users who are not limited to sites may."""
    if call.user.grant.visible_sites is not None:
        raise PermissionDenied("administer every site")
    site = str(body.get("SiteID", ""))
    response: dict[str, Any] = await _change(
        call, f"add site {site}", ("POST", "sites"), body, lambda: [site]
    )
    return response


@router.get("/{site}")
async def site(site: Site, call: CallDep) -> dict[str, Any]:
    """Return a site's settings."""
    require_on_site(call.user, Permission.ADMINISTER, site)
    found: dict[str, Any] = await call.context.engine.call("GET", "sites", site)
    return found


@router.patch("/{site}")
async def change_site(site: Site, body: JsonBody, call: CallDep) -> Any:
    """Change some members of a site's settings."""
    return await _change(call, "change site", ("PATCH", "sites", site), body)


@router.get("/{site}/{what}")
async def listed(
    site: Site,
    what: Literal["templates", "prelim-groups", "users", "tokens", "code-map", "observed-hosts"],
    call: CallDep,
) -> Any:
    """List templates, groups, users, tokens (without secrets) or other parts of a site."""
    require_on_site(call.user, Permission.ADMINISTER, site)
    return await call.context.engine.call("GET", "sites", site, what)


@router.put("/{site}/code-map")
async def set_code_map(site: Site, body: JsonBody, call: CallDep) -> Any:
    """Replace a site's billing code map."""
    path = ("PUT", "sites", site, "code-map")
    return await _change(call, "change code map", path, body)


@router.get("/{site}/templates/{number}/mrrt")
async def export_template(site: Site, number: TemplateNumber, call: CallDep) -> Any:
    """Return a template as an IHE MRRT file."""
    require_on_site(call.user, Permission.ADMINISTER, site)
    path = ("sites", site, "templates", str(number), "mrrt")
    return await call.context.engine.call("GET", *path)


@router.put("/{site}/templates/{number}/mrrt")
async def import_template(site: Site, number: TemplateNumber, body: JsonBody, call: CallDep) -> Any:
    """Create or replace a template from an IHE MRRT file."""
    path = ("PUT", "sites", site, "templates", str(number), "mrrt")
    return await _change(call, "change template", path, body)


@router.put("/{site}/templates/{number}")
async def set_template(site: Site, number: TemplateNumber, body: JsonBody, call: CallDep) -> Any:
    """Create or replace a template."""
    path = ("PUT", "sites", site, "templates", str(number))
    return await _change(call, "change template", path, body)


@router.delete("/{site}/templates/{number}")
async def delete_template(site: Site, number: TemplateNumber, call: CallDep) -> Any:
    """Remove a template."""
    path = ("DELETE", "sites", site, "templates", str(number))
    return await _change(call, "remove template", path)


@router.post("/{site}/prelim-groups")
async def set_group(site: Site, body: JsonBody, call: CallDep) -> Any:
    """Create or replace a prelim group."""
    path = ("POST", "sites", site, "prelim-groups")
    return await _change(call, "change prelim group", path, body)


@router.delete("/{site}/prelim-groups/{name}")
async def delete_group(site: Site, name: Name, call: CallDep) -> Any:
    """Remove a prelim group."""
    path = ("DELETE", "sites", site, "prelim-groups", name)
    return await _change(call, "remove prelim group", path)


async def _change(
    call: ConsoleCall,
    action: str,
    path: tuple[str, ...],
    body: object = None,
    sites: Callable[[], Collection[str]] | None = None,
    **more: Any,
) -> Any:
    """
    Change a part of a site at the report engine, and record it.

    `path` contains the method and the parts of the path. Its third part is the site, unless `sites`
    is given. `more` are members of `AuditedAction`.
    """
    engine = call.context.engine
    subject = str(more.pop("subject", " ".join(path[3:])))[:200]
    audited = AuditedAction(ADMINISTER, action[:200], subject, sites or (lambda: [path[2]]), **more)
    answer = await await_audited(call, audited, lambda: engine.call(*path, body=body))
    return {} if answer is None else answer


_REPORT: Final = ("reportId", "status", "ownerName")
_TIMES: Final = ("createdAt", "updatedAt", "signedAt")
_ORDER: Final = ("SiteLocation", "Accession")
"""The fields of an order that a user without the permission `bodies` sees."""
_PATIENT: Final = ("PatientMRN", "PatientName", "StudyDescription", "StudyDate", "Modality")


@router.post("/{site}/worklist")
async def worklist(site: Site, body: WorklistSearchBody, call: CallDep) -> dict[str, Any]:
    """List a site's reports; a search by patient requires the permission `bodies`."""
    permission = Permission.BODIES if body.text or body.mrn else Permission.FIND
    action = AuditedAction((Permission.FIND, permission), "read", "worklist", lambda: [site])
    bodies = call.user.reads_content
    shown = (*_ORDER, *_PATIENT) if bodies else _ORDER

    async def work() -> dict[str, Any]:
        page = await call.context.engine.client.worklist(site, **body.query())
        return {"rows": [_row(item, shown) for item in page.items], "next": page.next}

    return await await_audited(call, action, work)


def _milliseconds(value: object) -> object:
    """Convert a time of the report engine; None if it is missing or invalid."""
    try:
        return moment(value)
    except ValueError:
        return None


def _row(item: Mapping[str, Any], shown: tuple[str, ...]) -> dict[str, Any]:
    orders = item.get("orders", ())
    shown_orders = [{name: order[name] for name in shown if name in order} for order in orders]
    times = {name: _milliseconds(item.get(name)) for name in _TIMES}
    return {**{name: item.get(name) for name in _REPORT}, **times, "orders": shown_orders}


people_router = APIRouter(prefix="/api", route_class=ConsoleRoute)
EmailOrId = Annotated[str, Path(min_length=1, max_length=320)]
"""An e-mail address, or the id of an account."""


@people_router.post("/sites/{site}/users")
async def set_user(site: Site, body: JsonBody, call: CallDep) -> Any:
    """
    Invite a user to a site, or change their name or role there.

    If the user has no account yet, a system administrator gets the enrolment `link`.
    """
    email = str(body.get("email", ""))
    path = ("POST", "sites", site, "users")
    known, rule = await _rule(call, site, email, AccountAction.INVITE)
    response: dict[str, Any] = await _change(
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


@people_router.delete("/sites/{site}/users/{email}")
async def remove_user(site: Site, email: Name, call: CallDep) -> Any:
    """Remove a user from a site; their reports stay."""
    path = ("DELETE", "sites", site, "users", email)
    _, rule = await _rule(call, site, email, AccountAction.REMOVE)
    return await _change(call, "remove user", path, rule=rule)


@people_router.post("/sites/{site}/tokens")
async def create_token(site: Site, body: JsonBody, call: CallDep) -> Any:
    """Create a token for a user of the site; only this response contains its secret."""
    email = str(body.get("email", ""))
    path = ("POST", "sites", site, "tokens")
    _, rule = await _rule(call, site, email, AccountAction.CREATE_TOKEN)
    subject = f"user {email}"
    return await _change(
        call, "create token", path, body, subject=subject, rule=rule, fresh=always_fresh
    )


@people_router.delete("/sites/{site}/tokens/{token}")
async def revoke_token(site: Site, token: int, call: CallDep) -> Any:
    """Revoke a token, and the report links that were created with it."""
    path = ("DELETE", "sites", site, "tokens", str(token))
    owner = ""
    if Permission.ADMINISTER in call.user.grant.permissions and call.user.grant.sees([site]):
        listed = await call.context.engine.call("GET", "sites", site, "tokens")
        owner = next((str(row["email"]) for row in listed if row["id"] == token), "")
    _, rule = await _rule(call, site, owner, AccountAction.REVOKE_TOKEN)
    return await _change(call, "revoke token", path, rule=rule)


@people_router.get("/grants")
async def list_grants(call: CallDep) -> dict[str, Any]:
    """List the console roles of all accounts."""
    call.user.grant.require(Permission.GRANT)
    return {"rows": [_grant_row(entry) for entry in await call.context.access.entries()]}


@people_router.put("/grants/{email_or_id}")
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


@people_router.delete("/grants/{email_or_id}")
async def remove_role(email_or_id: EmailOrId, call: CallDep) -> dict[str, Any]:
    """Remove the role of an account; nobody removes their own."""
    await await_audited(
        call,
        _action(email_or_id, "revoke"),
        lambda: call.context.access.revoke(_administrator(call.user), email_or_id),
    )
    return {}


@people_router.post("/people/{email_or_id}/enrolment")
async def enrol(email_or_id: EmailOrId, call: CallDep) -> dict[str, Any]:
    """End password and sessions of an account; return a one-time enrolment link."""
    link = await await_audited(
        call,
        _action(email_or_id, "reset account"),
        lambda: call.context.access.enrol(_administrator(call.user), email_or_id),
    )
    return _enrolment(link)


@people_router.post("/people/{email_or_id}/disable")
async def disable(email_or_id: EmailOrId, call: CallDep) -> dict[str, Any]:
    """Disable an account; its sessions, tokens and links end immediately."""
    await _set_disabled(email_or_id, call, disabled=True)
    return {}


@people_router.post("/people/{email_or_id}/enable")
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


def _grant_row(entry: GrantEntry) -> dict[str, Any]:
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
