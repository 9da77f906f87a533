"""
Sites of the report engine: settings, templates, prelim groups, billing codes, worklist.

The report engine validates the request bodies; its error texts are passed on to the user.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Body, Path

from bridge.admin.access.permissions import Permission
from bridge.admin.errors import PermissionDenied
from bridge.console.http.bodies import WorklistSearchBody
from bridge.console.http.guard import (
    AuditedAction,
    CallDep,
    ConsoleCall,
    ConsoleRoute,
    await_audited,
    require_on_site,
)
from bridge.contract.responses import moment

router = APIRouter(prefix="/api/sites", route_class=ConsoleRoute)
Site = Annotated[str, Path(min_length=1, max_length=128)]
Name = Annotated[str, Path(min_length=1, max_length=320)]
TemplateNumber = Annotated[int, Path(ge=1, le=999_999_999)]
JsonBody = Annotated[dict[str, Any], Body()]
ADMINISTER = (Permission.ADMINISTER,)


@router.get("")
async def sites(call: CallDep) -> list[dict[str, Any]]:
    """List the user's sites; users who do not administer them see id and name only."""
    call.user.grant.require(Permission.FIND)
    found = await call.context.engine.call("GET", "sites")
    visible = [each for each in found if call.user.grant.sees([each["SiteID"]])]
    if Permission.ADMINISTER not in call.user.grant.permissions:
        visible = [{"SiteID": each["SiteID"], "name": each["name"]} for each in visible]
    return visible


@router.post("", status_code=201)
async def add_site(body: JsonBody, call: CallDep) -> dict[str, Any]:
    """Add a site; only users who are not limited to sites may."""
    if call.user.grant.visible_sites is not None:
        raise PermissionDenied("administer every site")
    site = str(body.get("SiteID", ""))
    response: dict[str, Any] = await change(
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
    return await change(call, "change site", ("PATCH", "sites", site), body)


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
    return await change(call, "change code map", path, body)


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
    return await change(call, "change template", path, body)


@router.put("/{site}/templates/{number}")
async def set_template(site: Site, number: TemplateNumber, body: JsonBody, call: CallDep) -> Any:
    """Create or replace a template."""
    path = ("PUT", "sites", site, "templates", str(number))
    return await change(call, "change template", path, body)


@router.delete("/{site}/templates/{number}")
async def delete_template(site: Site, number: TemplateNumber, call: CallDep) -> Any:
    """Remove a template."""
    path = ("DELETE", "sites", site, "templates", str(number))
    return await change(call, "remove template", path)


@router.post("/{site}/prelim-groups")
async def set_group(site: Site, body: JsonBody, call: CallDep) -> Any:
    """Create or replace a prelim group."""
    path = ("POST", "sites", site, "prelim-groups")
    return await change(call, "change prelim group", path, body)


@router.delete("/{site}/prelim-groups/{name}")
async def delete_group(site: Site, name: Name, call: CallDep) -> Any:
    """Remove a prelim group."""
    path = ("DELETE", "sites", site, "prelim-groups", name)
    return await change(call, "remove prelim group", path)


async def change(
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
    bodies = Permission.BODIES in call.user.grant.permissions
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
