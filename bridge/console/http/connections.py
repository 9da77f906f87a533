"""Listeners and destinations set up by hand: a form, checks, and their history."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from pydantic import ConfigDict, Field, StringConstraints

from bridge.console.context import ConnectionChange, ConsoleContext, ProposedConnection
from bridge.console.errors import EngineRefusal, EngineUnreachable, InvalidContent
from bridge.console.http.channels import Kind, Name
from bridge.console.http.guard import (
    AuditedAction,
    ContextDep,
    UserDep,
    always_fresh,
    await_audited,
    run_audited,
)
from bridge.console.http.mapping_bodies import Version
from bridge.console.http.route import ConsoleRoute
from bridge.console.permissions import Permission
from bridge.executors import Threads
from bridge.request_body import Model

_MOST_KEYS = 60

ConnectionName = Annotated[str, Path(max_length=64, pattern=r"^[A-Za-z0-9._-]+$")]
Reason = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]
Table = Annotated[dict[str, Any], Field(max_length=_MOST_KEYS)]


class _Body(Model):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PlanBody(_Body):
    """A table as bridge.toml would have it; `new`: nobody may have its name."""

    table: Table
    new: bool = False


class BackBody(_Body):
    """Why, and what is in force as the page knows it."""

    reason: Reason
    begun_on: Version


class SettingsBody(BackBody):
    """The table, null: bridge.toml has the word again."""

    table: Table | None
    new: bool = False


router = APIRouter(prefix="/api/connections", route_class=ConsoleRoute)
_ANY_SITE = ("", "*")
_NEEDS = (Permission.CONNECT,)


@router.get("")
async def form(user: UserDep, context: ContextDep) -> Mapping[str, Any]:
    """Describe what is asked for."""
    user.grant.require(Permission.CONNECT)
    async with context.gate.entered():
        return await Threads.CONSOLE.run(context.connections.form)


@router.get("/{kind}/{name}")
async def connection(
    kind: Kind, name: Name, user: UserDep, context: ContextDep
) -> Mapping[str, Any]:
    """Give the settings of one, and what they were."""
    user.grant.require(Permission.CONNECT)
    return await Threads.CONSOLE.run(context.connections.connection, kind, name)


@router.post("/{kind}/check")
async def check(
    kind: Kind, body: PlanBody, user: UserDep, context: ContextDep
) -> Mapping[str, Any]:
    """Say what is wrong with settings, field by field; nothing is kept."""
    user.grant.require(Permission.CONNECT)
    plan = ProposedConnection(kind, body.table, body.new)
    unknown = await _unknown_sites(context, body.table)
    async with context.gate.entered():
        found = await Threads.CONSOLE.run(context.connections.check, plan)
    return {**found, "mistakes": [*found["mistakes"], *unknown]}


@router.post("/{kind}/try")
async def try_out(
    kind: Kind, body: PlanBody, request: Request, user: UserDep, context: ContextDep
) -> Mapping[str, Any]:
    """Connect as settings say, and tell what was found; no message is sent."""
    wanted = AuditedAction(_NEEDS, "test", f"{kind} {str(body.table.get('name', ''))[:64]}")
    plan = ProposedConnection(kind, body.table, body.new)
    work = context.connections.try_out
    return {"steps": list(await await_audited(request, user, wanted, lambda: work(plan)))}


@router.put("/{kind}/{name}")
async def save(
    kind: Kind,
    name: ConnectionName,
    body: SettingsBody,
    request: Request,
    user: UserDep,
    context: ContextDep,
) -> Mapping[str, Any]:
    """Put settings into force on all nodes."""
    wanted = AuditedAction(
        _NEEDS, "set up", f"{kind} {name}", reason=body.reason, fresh=always_fresh
    )
    email = user.grant.email
    change = ConnectionChange(kind, name, email, body.reason, body.begun_on, body.table, body.new)
    unknown = await _unknown_sites(context, body.table or {})

    def work() -> Mapping[str, Any]:
        if unknown:
            raise InvalidContent(f"{len(unknown)} mistakes: {unknown[0]['text']}", mistakes=unknown)
        return context.connections.save(change)

    async with context.gate.entered():
        return await run_audited(request, user, wanted, work)


@router.post("/{kind}/{name}/rollback")
async def rollback(
    kind: Kind,
    name: ConnectionName,
    body: BackBody,
    request: Request,
    user: UserDep,
    context: ContextDep,
) -> Mapping[str, Any]:
    """Put the settings before into force again."""
    wanted = AuditedAction(
        _NEEDS, "roll back", f"{kind} {name}", reason=body.reason, fresh=always_fresh
    )
    change = ConnectionChange(kind, name, user.grant.email, body.reason, body.begun_on)
    async with context.gate.entered():
        return await run_audited(
            request, user, wanted, lambda: context.connections.rollback(change)
        )


async def _unknown_sites(context: ConsoleContext, table: Mapping[str, Any]) -> list[dict[str, str]]:
    """Name the sites of a table that the report service does not have, field by field."""
    named = {"site": [table.get("site")], "sites": table.get("sites")}
    wanted = {
        field: [each for each in sites if isinstance(each, str) and each not in _ANY_SITE]
        for field, sites in named.items()
        if isinstance(sites, list)
    }
    if not any(wanted.values()):
        return []
    try:
        known = await context.service.sites()
    except (
        EngineUnreachable,
        EngineRefusal,
    ):  # another report service, or none now: nobody can tell
        return []
    return [
        {"field": field, "text": f"there is no site {site}: add it under Sites first"}
        for field, sites in wanted.items()
        for site in dict.fromkeys(sites)
        if site not in known
    ]
