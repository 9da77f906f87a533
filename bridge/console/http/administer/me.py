"""The signed-in user, and the page to which /console leads."""

from typing import Any

from fastapi import APIRouter

from bridge.admin.access.permissions import Permission
from bridge.admin.errors import EngineRefusal, EngineUnreachable
from bridge.console.context import ConsoleContext
from bridge.console.http.guard import CallDep, ConsoleRoute, ConsoleUser
from bridge.console.http.models.first_steps import MeBody
from bridge.executors import CONSOLE_THREADS

router = APIRouter(prefix="/api", route_class=ConsoleRoute)


@router.get("/me", responses={200: {"model": MeBody}})
async def me(call: CallDep) -> dict[str, Any]:
    """Return the user with role, permissions and sites (null: all sites)."""
    grant = call.user.grant
    sites = None if grant.visible_sites is None else sorted(grant.visible_sites)
    return {
        "email": grant.email,
        "name": call.user.name,
        "theme": call.user.theme,
        "role": grant.role,
        "permissions": sorted(grant.permissions),
        "sites": sites,
        "zones": await _zones(call.context, call.user),
        "home": await home(call.context, call.user),
        "start": await _start(call.context, call.user),
    }


async def home(context: ConsoleContext, user: ConsoleUser) -> str:
    """Return the first page: `start` for who sets up an installation without messages."""
    if Permission.CONNECT not in user.grant.permissions:
        return "overview"
    is_empty = await CONSOLE_THREADS.run(context.first_steps.is_empty)
    return "start" if is_empty else "overview"


async def _start(context: ConsoleContext, user: ConsoleUser) -> dict[str, int] | None:
    if Permission.CONNECT not in user.grant.permissions:
        return None
    try:
        return {"left": await context.first_steps.left()}
    except (EngineUnreachable, EngineRefusal):  # the pages show this error themselves
        return None


async def _zones(context: ConsoleContext, user: ConsoleUser) -> dict[str, str]:
    """Return the time zone of each site that the user sees; none if the engine does not say."""
    try:
        sites = await context.engine.call("GET", "sites")
    except (EngineUnreachable, EngineRefusal):
        return {}
    return {
        str(site["SiteID"]): str(site["timeZone"])
        for site in sites
        if user.grant.sees([site["SiteID"]])
    }
