"""The overview of all listeners and destinations, and the page and graphs of one."""

from typing import Any, Literal

from fastapi import APIRouter

from bridge.admin.access.permissions import Permission
from bridge.admin.errors import NoSuchItem, PermissionDenied
from bridge.admin.lists.listing import Access
from bridge.admin.overview import attention
from bridge.admin.overview import channels as use_cases
from bridge.console.http.configure.connections import Name, visible_channels
from bridge.console.http.guard import CallDep, ConsoleCall, ConsoleRoute
from bridge.console.http.models.overview import ChannelPageBody, OverviewBody, SeriesBody
from bridge.executors import CONSOLE_THREADS
from config.sections import ChannelKind

router = APIRouter(prefix="/api", route_class=ConsoleRoute)


@router.get("/overview", responses={200: {"model": OverviewBody}})
async def overview(call: CallDep) -> dict[str, Any]:
    """Return a row for each of the user's channels, and what needs a person."""
    call.user.grant.require(Permission.SEE)
    return await CONSOLE_THREADS.run(_overview, call)


def _overview(call: ConsoleCall) -> dict[str, Any]:
    channels, context, now = visible_channels(call), call.context, call.context.clock()
    access = Access.of(call.user.grant)
    return use_cases.overview(
        context.database,
        {kind: channels[f"{kind}s"] for kind in ChannelKind},
        attention.groups(context.settings, context.database, access, now),
        now,
        limited=call.user.grant.visible_sites is not None,
    )


@router.get("/channels/{kind}/{name}", responses={200: {"model": ChannelPageBody}})
async def channel(kind: ChannelKind, name: Name, call: CallDep) -> dict[str, Any]:
    """Return one listener or destination; its settings for users who may change connections."""
    call.user.grant.require(Permission.SEE)
    return await CONSOLE_THREADS.run(_page, call, kind, name)


def _page(call: ConsoleCall, kind: ChannelKind, name: str) -> dict[str, Any]:
    context = call.context
    return use_cases.channel_page(
        context.settings,
        context.database,
        kind,
        _find(call, kind, name),
        context.clock(),
        with_settings=Permission.CONNECT in call.user.grant.permissions,
    )


@router.get("/channels/{kind}/{name}/series", responses={200: {"model": SeriesBody}})
async def series(
    kind: ChannelKind, name: Name, call: CallDep, span: Literal["1h", "24h", "7d", "30d"] = "24h"
) -> dict[str, Any]:
    """Return outcomes, latency and queue of a channel over time, and a week before."""
    call.user.grant.require(Permission.SEE)
    return await CONSOLE_THREADS.run(_series, call, kind, name, span)


def _series(call: ConsoleCall, kind: ChannelKind, name: str, span: str) -> dict[str, Any]:
    if _find(call, kind, name)["shared"]:
        raise PermissionDenied("see the counts of a connection that also serves other sites")
    return use_cases.channel_series(call.context.database, kind, name, span, call.context.clock())


def _find(call: ConsoleCall, kind: ChannelKind, name: str) -> use_cases.ChannelState:
    """Return a channel that the user may see. Raises NoSuchItem."""
    for found in visible_channels(call)[f"{kind}s"]:
        if found["name"] == name:
            return found
    raise NoSuchItem
