"""The signed-in user, and the figures of the dashboard."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter

from bridge.admin.access.permissions import Permission
from bridge.admin.lists import attention
from bridge.admin.lists.listing import Access
from bridge.console.dashboard import read_figures
from bridge.console.http.connections import visible_channels
from bridge.console.http.guard import CallDep, ConsoleCall, ConsoleRoute
from bridge.executors import CONSOLE_THREADS
from bridge.monitoring.alerts import list_alerts

router = APIRouter(prefix="/api", route_class=ConsoleRoute)
_WITHOUT_COUNTS = frozenset({"paused", "circuit", "certificate"})
"""Alerts of shared connections that contain no counts of other sites."""


@router.get("/me")
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
    }


@router.get("/dashboard")
async def figures(call: CallDep) -> dict[str, Any]:
    """Return the figures of the former dashboard, limited to the user's connections."""
    call.user.grant.require(Permission.SEE)
    return await CONSOLE_THREADS.run(_figures, call)


def _figures(call: ConsoleCall) -> dict[str, Any]:
    channels = visible_channels(call)
    names = {
        kind: {str(channel["name"]) for channel in listed if not channel["shared"]}
        for kind, listed in channels.items()
    }
    limited = call.user.grant.visible_sites is not None
    found = read_figures(
        call.context.database,
        call.context.clock(),
        listeners=names["listeners"] if limited else None,
        destinations=names["destinations"] if limited else None,
    )
    alerts = [alert for alert in list_alerts(call.context.database) if alert["cleared_at"] is None]
    if limited:
        alerts = [alert for alert in alerts if _is_visible(channels, *alert["key"].split(":", 1))]
    with call.context.database.read() as connection:
        concerns, _ = attention.count(connection, {}, Access.of(call.user.grant))
    return {**found, **channels, "alerts": alerts, "concerns": concerns}


def _is_visible(channels: Mapping[str, Any], subject: str, name: str = "") -> bool:
    """True if an alert is about the user's channels, and reveals no counts of other sites."""
    shared = {
        f"{kind.removesuffix('s')} {channel['name']}": channel["shared"]
        for kind, found in channels.items()
        for channel in found
    }
    return name in shared and (not shared[name] or subject in _WITHOUT_COUNTS)
