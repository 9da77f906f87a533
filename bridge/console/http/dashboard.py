"""The signed-in user, the figures of the dashboard, and exceptions that need attention."""

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from fastapi import APIRouter

from bridge.admin.access.permissions import Permission
from bridge.admin.errors import NoSuchItem
from bridge.admin.orders.page import site_of_order
from bridge.console import dashboard
from bridge.console.context import ConsoleContext
from bridge.console.dashboard import read_figures
from bridge.console.http.connections import visible_channels
from bridge.console.http.guard import AuditedAction, CallDep, ConsoleCall, ConsoleRoute, run_audited
from bridge.console.http.messages import sites_of_message
from bridge.contract.requests import RowId
from bridge.executors import CONSOLE_THREADS
from bridge.monitoring.alerts import list_alerts
from bridge.store.records import exceptions as records
from bridge.store.records.exceptions import ExceptionSubject

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
    exception_count = dashboard.count_exceptions(
        call.context.database, call.user.grant.visible_sites
    )
    return {**found, **channels, "alerts": alerts, "concerns": exception_count}


def _is_visible(channels: Mapping[str, Any], subject: str, name: str = "") -> bool:
    """True if an alert is about the user's channels, and reveals no counts of other sites."""
    shared = {
        f"{kind.removesuffix('s')} {channel['name']}": channel["shared"]
        for kind, found in channels.items()
        for channel in found
    }
    return name in shared and (not shared[name] or subject in _WITHOUT_COUNTS)


exception_router = APIRouter(prefix="/api/concerns", route_class=ConsoleRoute)


@exception_router.get("")
async def listed(call: CallDep) -> dict[str, Any]:
    """List open exceptions, then those seen last; with orders if the user may search."""
    call.user.grant.require(Permission.SEE)
    work = partial(
        dashboard.list_exceptions,
        call.context.database,
        call.context.subjects_of,
        call.user.grant.visible_sites,
        with_orders=Permission.FIND in call.user.grant.permissions,
        with_texts=call.user.reads_content,
    )
    return {"rows": await CONSOLE_THREADS.run(work)}


@exception_router.post("/{kind}/{row_id}/seen")
async def seen(kind: ExceptionSubject, row_id: RowId, call: CallDep) -> dict[str, Any]:
    """Mark an exception as seen by the user; its notifications end."""
    email = call.user.grant.email

    def work() -> None:
        if not records.mark_seen(
            call.context.database, [(kind, row_id)], call.context.clock(), email
        ):
            raise NoSuchItem

    action = AuditedAction(
        (Permission.OPERATE,),
        "acknowledge",
        f"{kind} {row_id}",
        lambda: _sites(call.context, kind, row_id),
    )
    await run_audited(call, action, work)
    return {}


def _sites(context: ConsoleContext, kind: ExceptionSubject, row_id: int) -> Collection[str]:
    if kind is ExceptionSubject.FEED:
        return ()  # no site: only users who are not limited to sites
    if kind is ExceptionSubject.MESSAGE:
        return sites_of_message(context, row_id)
    if kind is ExceptionSubject.DELIVERY:
        return dashboard.sites_of_delivery(context.database, row_id)
    return site_of_order(context.database, row_id)
