"""Who is here, and what the dashboard shows."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter

from bridge.console import exceptions
from bridge.console.context import ConsoleContext
from bridge.console.dashboard import figures
from bridge.console.http.channels import own_channels
from bridge.console.http.guard import ConsoleUser, ContextDep, UserDep
from bridge.console.http.route import ConsoleRoute
from bridge.console.permissions import Permission
from bridge.executors import Threads

router = APIRouter(prefix="/api", route_class=ConsoleRoute)
_TELLS_NO_NUMBERS = frozenset({"paused", "circuit", "certificate"})


@router.get("/me")
async def me(user: UserDep) -> dict[str, Any]:
    """Say who is signed in, and what they may, on which sites (null: on all)."""
    grant = user.grant
    about = {"email": grant.email, "name": user.name, "theme": user.theme}
    sites = None if grant.reach is None else sorted(grant.reach)
    return {
        **about,
        "role": grant.role,
        "permissions": sorted(grant.permissions),
        "sites": sites,
    }


@router.get("/overview")
async def overview(user: UserDep, context: ContextDep) -> dict[str, Any]:
    """Give what the dashboard shows: of a person's own listeners and destinations."""
    user.grant.require(Permission.SEE)
    return await Threads.CONSOLE.run(_overview, context, user)


def _overview(context: ConsoleContext, user: ConsoleUser) -> dict[str, Any]:
    channels = own_channels(context, user)
    names = {
        kind: {str(each["name"]) for each in found if not each["shared"]}
        for kind, found in channels.items()
    }
    limited = user.grant.reach is not None
    told = figures(
        context.database,
        context.clock(),
        listeners=names["listeners"] if limited else None,
        destinations=names["destinations"] if limited else None,
    )
    alerts = context.installation.alerts()
    if limited:
        alerts = [each for each in alerts if _concerns(channels, *each["key"].split(":", 1))]
    concerned = exceptions.count_exceptions(context.database, user.grant.reach)
    return {**told, **channels, "alerts": alerts, "concerns": concerned}


def _concerns(channels: Mapping[str, Any], about: str, name: str = "") -> bool:
    """Whether an alert is of a person's own channels; of shared ones, that nothing goes out."""
    shared = {
        f"{kind.removesuffix('s')} {each['name']}": each["shared"]
        for kind, found in channels.items()
        for each in found
    }
    return name in shared and (not shared[name] or about in _TELLS_NO_NUMBERS)
