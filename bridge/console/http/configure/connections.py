"""
Listeners and destinations: list, pause, resume, test; their settings with checks and history.

Interface packages, which contain a connection with its mappings, are ZIP files here: export,
preview of changes, import.
"""

import re
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response

from bridge.admin.access.permissions import Permission
from bridge.admin.channel_operations import (
    ALL_SITES,
    channel_states,
    is_shared,
    visible_sites,
)
from bridge.admin.connection_settings import ConnectionChange, ProposedConnection
from bridge.admin.errors import (
    EngineRefusal,
    EngineUnreachable,
    InvalidContent,
    NoSuchItem,
    PermissionDenied,
)
from bridge.admin.packages.activation import PackageImport
from bridge.console.context import ConsoleContext
from bridge.console.http.guard import (
    AuditedAction,
    AuthoringRoute,
    CallDep,
    ConsoleCall,
    ConsoleRoute,
    always_fresh,
    await_audited,
    run_audited,
)
from bridge.console.http.models.bodies import (
    ConnectionChangeBody,
    ConnectionRollbackBody,
    PackageBody,
    PackageImportBody,
    ProposedConnectionBody,
)
from bridge.executors import CONSOLE_THREADS
from bridge.monitoring import channels as channel_records
from config.sections import ChannelKind, ConnectionKind

channel_router = APIRouter(prefix="/api/channels", route_class=ConsoleRoute)
router = APIRouter(prefix="/api/connections", route_class=ConsoleRoute)
Name = Annotated[str, Path(max_length=64)]


@channel_router.get("")
async def channels(call: CallDep) -> dict[str, Any]:
    """List listeners and destinations."""
    call.user.grant.require(Permission.SEE)
    return await CONSOLE_THREADS.run(visible_channels, call)


@channel_router.post("/{kind}/{name}/pause")
async def pause(kind: ChannelKind, name: Name, call: CallDep) -> dict[str, Any]:
    """Pause a listener or destination until it is resumed."""
    email, context = call.user.grant.email, call.context

    def work() -> None:
        channel_records.pause(context.database, kind, name, context.clock(), email)

    await run_audited(call, _channel_action(call, kind, name, "pause"), work)
    return {}


@channel_router.post("/{kind}/{name}/resume")
async def resume(kind: ChannelKind, name: Name, call: CallDep) -> dict[str, Any]:
    """Resume a listener or destination."""
    work = partial(channel_records.resume, call.context.database, kind, name)
    await run_audited(call, _channel_action(call, kind, name, "resume"), work)
    return {}


@channel_router.post("/{kind}/{name}/test")
async def test(kind: ChannelKind, name: Name, call: CallDep) -> dict[str, Any]:
    """Connect to a listener or destination, and return the steps of the test; send no message."""
    action = _channel_action(call, kind, name, "test")
    steps = await await_audited(call, action, lambda: call.context.connections.probe(kind, name))
    return {"steps": list(steps)}


def visible_channels(call: ConsoleCall) -> dict[str, list[Mapping[str, Any]]]:
    """
    Return the listeners and destinations that serve the user's sites.

    `shared`: it also serves other sites. The user sees its state, but cannot change it.
    """
    own = call.user.grant.visible_sites
    return {
        f"{kind}s": [
            {**state, "sites": sites, "shared": is_shared(state["sites"], own)}
            for state in _states(call.context, kind)
            if (sites := visible_sites(state["sites"], own)) is not None
        ]
        for kind in ChannelKind
    }


def _states(context: ConsoleContext, kind: ChannelKind) -> list[dict[str, Any]]:
    return channel_states(context.settings, context.database, kind, context.clock())


def _channel_action(call: ConsoleCall, kind: ChannelKind, name: str, action: str) -> AuditedAction:
    def sites() -> list[str]:
        own = call.user.grant.visible_sites
        for state in _states(call.context, kind):
            if state["name"] == name and visible_sites(state["sites"], own) is not None:
                if is_shared(state["sites"], own):
                    raise PermissionDenied("change a connection that also serves other sites")
                return list(state["sites"])
        raise NoSuchItem

    return AuditedAction((Permission.OPERATE,), action, f"{kind} {name}", sites)


_NAME = r"^[!-\[\]-~]([ -\[\]-~]*[!-\[\]-~])?$"
ConnectionName = Annotated[str, Path(max_length=64, pattern=_NAME)]
"""A name, or an AE title, which may have other characters, also a slash."""
_NOT_ONE_SITE = ("", ALL_SITES)
_CONNECT = (Permission.CONNECT,)


@router.get("")
async def form(call: CallDep) -> Mapping[str, Any]:
    """Describe the settings of listeners, destinations and DICOM peers."""
    call.user.grant.require(Permission.CONNECT)
    async with call.context.gate.entered():
        return await CONSOLE_THREADS.run(call.context.connections.form)


@router.get("/{kind}/{name:path}")
async def connection(kind: ConnectionKind, name: Name, call: CallDep) -> Mapping[str, Any]:
    """Return the settings of a connection, and their history."""
    call.user.grant.require(Permission.CONNECT)
    return await CONSOLE_THREADS.run(call.context.connections.connection, kind, name)


@router.post("/{kind}/check")
async def check(
    kind: ConnectionKind, body: ProposedConnectionBody, call: CallDep
) -> Mapping[str, Any]:
    """Return the errors of settings by field; store nothing."""
    call.user.grant.require(Permission.CONNECT)
    plan = ProposedConnection(kind, body.table, body.new)
    unknown = await _unknown_sites(call.context, body.table)
    async with call.context.gate.entered():
        found = await CONSOLE_THREADS.run(call.context.connections.check, plan)
    return {**found, "mistakes": [*found["mistakes"], *unknown]}


@router.post("/{kind}/try")
async def try_out(
    kind: ChannelKind, body: ProposedConnectionBody, call: CallDep
) -> Mapping[str, Any]:
    """Connect with settings, and return the steps of the test; send no message."""
    name = str(body.table.get("name", ""))[:64]
    action = AuditedAction(_CONNECT, "test", f"{kind} {name}")
    plan = ProposedConnection(kind, body.table, body.new)
    work = call.context.connections.try_out
    return {"steps": list(await await_audited(call, action, lambda: work(plan)))}


@router.put("/{kind}/{name:path}")
async def save(
    kind: ConnectionKind, name: ConnectionName, body: ConnectionChangeBody, call: CallDep
) -> Mapping[str, Any]:
    """Activate settings on all nodes."""
    action = AuditedAction(
        _CONNECT, "set up", f"{kind} {name}", reason=body.reason, fresh=always_fresh
    )
    email = call.user.grant.email
    change = ConnectionChange(kind, name, email, body.reason, body.begun_on, body.table, body.new)
    unknown = await _unknown_sites(call.context, body.table or {})

    def work() -> Mapping[str, Any]:
        if unknown:
            detail = f"{len(unknown)} mistakes: {unknown[0]['text']}"
            raise InvalidContent(detail, mistakes=unknown)
        return call.context.connections.save(change)

    async with call.context.gate.entered():
        return await run_audited(call, action, work)


@router.post("/{kind}/{name:path}/rollback")
async def rollback(
    kind: ConnectionKind, name: ConnectionName, body: ConnectionRollbackBody, call: CallDep
) -> Mapping[str, Any]:
    """Activate the previous settings."""
    action = AuditedAction(
        _CONNECT, "roll back", f"{kind} {name}", reason=body.reason, fresh=always_fresh
    )
    change = ConnectionChange(kind, name, call.user.grant.email, body.reason, body.begun_on)
    async with call.context.gate.entered():
        return await run_audited(call, action, lambda: call.context.connections.rollback(change))


async def _unknown_sites(context: ConsoleContext, table: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return an error for each site in a table that the report engine does not have."""
    named = {"site": [table.get("site")], "sites": table.get("sites")}
    wanted = {
        field: [site for site in sites if isinstance(site, str) and site not in _NOT_ONE_SITE]
        for field, sites in named.items()
        if isinstance(sites, list)
    }
    if not any(wanted.values()):
        return []
    try:
        known = await context.engine.sites()
    except (EngineUnreachable, EngineRefusal):  # the sites cannot be checked
        return []
    return [
        {"field": field, "text": f"there is no site {site}: add it under Sites first"}
        for field, sites in wanted.items()
        for site in dict.fromkeys(sites)
        if site not in known
    ]


package_router = APIRouter(prefix="/api/interfaces", route_class=AuthoringRoute)
_IMPORT = (Permission.AUTHOR, Permission.CODE, Permission.CONNECT)
"""A package may contain Python hooks, and it opens ports."""


@package_router.get("/export")
async def export(
    names: Annotated[list[Annotated[str, Query(max_length=64)]], Query(min_length=1)], call: CallDep
) -> Response:
    """Return listeners and destinations with their definitions as a ZIP file, without secrets."""
    action = AuditedAction((Permission.AUTHOR,), "export", f"interface {', '.join(names)}"[:200])
    data = await run_audited(call, action, lambda: call.context.packages.export_zip(names))
    file = re.sub(r"[^A-Za-z0-9._-]", "", names[0])
    headers = {"Content-Disposition": f'attachment; filename="{file}.zip"'}
    return Response(
        data, media_type="application/zip", headers={**headers, "Cache-Control": "no-store"}
    )


@package_router.post("/look")
async def preview(body: PackageBody, call: CallDep) -> Mapping[str, Any]:
    """Return what the import of a package would change; store nothing."""
    for permission in _IMPORT:
        call.user.grant.require(permission)
    async with call.context.gate.entered():
        preview_of = partial(call.context.packages.preview, body.data, disabled=body.disabled)
        return await CONSOLE_THREADS.run(preview_of)


@package_router.post("/import")
async def import_zip(body: PackageImportBody, call: CallDep) -> Mapping[str, Any]:
    """Import a package after its preview; all nodes activate it."""
    packages = call.context.packages
    for permission in _IMPORT:
        call.user.grant.require(permission)
    async with call.context.gate.entered():
        preview_of = partial(packages.preview, body.data, disabled=body.disabled)
        found = await CONSOLE_THREADS.run(preview_of)
        subject = f"interface {', '.join(found['channels'])}"[:200]
        package = PackageImport(
            body.data,
            body.mark,
            call.user.grant.email,
            body.reason.strip(),
            body.replace,
            body.disabled,
        )
        action = AuditedAction(
            _IMPORT, "import", subject, reason=body.reason.strip(), fresh=always_fresh
        )
        return await run_audited(call, action, lambda: packages.import_zip(package))
