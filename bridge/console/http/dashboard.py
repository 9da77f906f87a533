"""The signed-in user, and the figures of the dashboard."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter

from bridge.console import exceptions
from bridge.console.context import ConsoleContext
from bridge.console.dashboard import figures
from bridge.console.http.connections import visible_channels
from bridge.console.http.guard import ConsoleUser, ContextDep, UserDep
from bridge.console.http.route import ConsoleRoute
from bridge.console.permissions import Permission
from bridge.executors import Threads

router = APIRouter(prefix="/api", route_class=ConsoleRoute)
_WITHOUT_COUNTS = frozenset({"paused", "circuit", "certificate"})
"""Alerts of shared connections that contain no counts of other sites."""


@router.get("/me")
async def me(user: UserDep) -> dict[str, Any]:
    """Return the user with role, permissions and sites (null: all sites)."""
    grant = user.grant
    sites = None if grant.reach is None else sorted(grant.reach)
    return {
        "email": grant.email,
        "name": user.name,
        "theme": user.theme,
        "role": grant.role,
        "permissions": sorted(grant.permissions),
        "sites": sites,
    }


@router.get("/overview")
async def overview(user: UserDep, context: ContextDep) -> dict[str, Any]:
    """Return the figures of the dashboard, limited to the user's listeners and destinations."""
    user.grant.require(Permission.SEE)
    return await Threads.CONSOLE.run(_overview, context, user)


def _overview(context: ConsoleContext, user: ConsoleUser) -> dict[str, Any]:
    channels = visible_channels(context, user)
    names = {
        kind: {str(each["name"]) for each in listed if not each["shared"]}
        for kind, listed in channels.items()
    }
    limited = user.grant.reach is not None
    found = figures(
        context.database,
        context.clock(),
        listeners=names["listeners"] if limited else None,
        destinations=names["destinations"] if limited else None,
    )
    alerts = context.installation.alerts()
    if limited:
        alerts = [each for each in alerts if _is_visible(channels, *each["key"].split(":", 1))]
    exception_count = exceptions.count_exceptions(context.database, user.grant.reach)
    return {**found, **channels, "alerts": alerts, "concerns": exception_count}


def _is_visible(channels: Mapping[str, Any], subject: str, name: str = "") -> bool:
    """Tell whether an alert is about the user's channels, and reveals no counts of other sites."""
    shared = {
        f"{kind.removesuffix('s')} {each['name']}": each["shared"]
        for kind, found in channels.items()
        for each in found
    }
    return name in shared and (not shared[name] or subject in _WITHOUT_COUNTS)
