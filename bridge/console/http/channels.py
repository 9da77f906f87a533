"""Listeners and destinations: list, pause, resume, test."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Request

from bridge.console.context import ConsoleContext
from bridge.console.errors import NoSuchItem, PermissionDenied
from bridge.console.http.guard import (
    AuditedAction,
    ConsoleUser,
    ContextDep,
    UserDep,
    await_audited,
    run_audited,
)
from bridge.console.http.route import ConsoleRoute
from bridge.console.permissions import Permission
from bridge.executors import Threads

router = APIRouter(prefix="/api/channels", route_class=ConsoleRoute)
Kind = Literal["listener", "destination"]
Name = Annotated[str, Path(max_length=64)]
ALL = "*"


@router.get("")
async def channels(user: UserDep, context: ContextDep) -> dict[str, Any]:
    """List listeners and destinations."""
    user.grant.require(Permission.SEE)
    return await Threads.CONSOLE.run(own_channels, context, user)


@router.post("/{kind}/{name}/pause")
async def pause(
    kind: Kind, name: Name, request: Request, user: UserDep, context: ContextDep
) -> dict[str, Any]:
    """Take or send nothing until it is resumed."""
    email = user.grant.email
    action = _about(context, user, kind, name, "pause")
    await run_audited(request, user, action, lambda: context.installation.pause(kind, name, email))
    return {}


@router.post("/{kind}/{name}/resume")
async def resume(
    kind: Kind, name: Name, request: Request, user: UserDep, context: ContextDep
) -> dict[str, Any]:
    """Let it go on."""
    action = _about(context, user, kind, name, "resume")
    await run_audited(request, user, action, lambda: context.installation.resume(kind, name))
    return {}


@router.post("/{kind}/{name}/test")
async def test(
    kind: Kind, name: Name, request: Request, user: UserDep, context: ContextDep
) -> dict[str, Any]:
    """Connect to it and say what is found, step by step; no message is sent."""
    action = _about(context, user, kind, name, "test")
    steps = await await_audited(request, user, action, lambda: context.probe(kind, name))
    return {"steps": list(steps)}


def own_channels(context: ConsoleContext, user: ConsoleUser) -> dict[str, list[Mapping[str, Any]]]:
    """
    Give the listeners and destinations that serve a person's sites.

    `shared`: it serves others' too, so the person sees how it is and changes nothing.
    """
    return {
        f"{kind}s": [
            {**each, "sites": own, "shared": not _is_own(user, each["sites"])}
            for each in context.installation.channels(kind)
            if (own := _shown(user, each["sites"])) is not None
        ]
        for kind in ("listener", "destination")
    }


def _shown(user: ConsoleUser, sites: list[str]) -> list[str] | None:
    """Give the sites of a channel that a person may know of; None: nothing of it."""
    reach = user.grant.reach
    if reach is None:
        return sites
    return [each for each in sites if reach and each in {ALL, *reach}] or None


def _is_own(user: ConsoleUser, sites: list[str]) -> bool:
    return user.grant.reach is None or (ALL not in sites and user.grant.reaches(sites))


def _about(
    context: ConsoleContext, user: ConsoleUser, kind: Kind, name: str, action: str
) -> AuditedAction:
    def sites() -> list[str]:
        for each in context.installation.channels(kind):
            if each["name"] == name and _shown(user, each["sites"]) is not None:
                if not _is_own(user, each["sites"]):
                    raise PermissionDenied("change what serves others' sites too")
                return list(each["sites"])
        raise NoSuchItem

    return AuditedAction((Permission.OPERATE,), action, f"{kind} {name}", sites)
