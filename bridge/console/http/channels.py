"""Listeners and destinations: list, pause, resume, test."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Request

from bridge.console.errors import NotPermitted, Unknown
from bridge.console.http.guard import (
    Act,
    BackstageDep,
    Person,
    PersonDep,
    act,
    act_and_wait,
)
from bridge.console.http.route import ConsoleRoute
from bridge.console.permissions import Permission
from bridge.console.services import Backstage
from bridge.executors import Threads

router = APIRouter(prefix="/api/channels", route_class=ConsoleRoute)
Kind = Literal["listener", "destination"]
Name = Annotated[str, Path(max_length=64)]
ALL = "*"


@router.get("")
async def channels(person: PersonDep, backstage: BackstageDep) -> dict[str, Any]:
    """List listeners and destinations."""
    person.grant.require(Permission.SEE)
    return await Threads.CONSOLE.run(own_channels, backstage, person)


@router.post("/{kind}/{name}/pause")
async def pause(
    kind: Kind, name: Name, request: Request, person: PersonDep, backstage: BackstageDep
) -> dict[str, Any]:
    """Take or send nothing until it is resumed."""
    email = person.grant.email
    deed = _about(backstage, person, kind, name, "pause")
    await act(request, person, deed, lambda: backstage.plant.pause(kind, name, email))
    return {}


@router.post("/{kind}/{name}/resume")
async def resume(
    kind: Kind, name: Name, request: Request, person: PersonDep, backstage: BackstageDep
) -> dict[str, Any]:
    """Let it go on."""
    deed = _about(backstage, person, kind, name, "resume")
    await act(request, person, deed, lambda: backstage.plant.resume(kind, name))
    return {}


@router.post("/{kind}/{name}/test")
async def test(
    kind: Kind, name: Name, request: Request, person: PersonDep, backstage: BackstageDep
) -> dict[str, Any]:
    """Connect to it and say what is found, step by step; no message is sent."""
    deed = _about(backstage, person, kind, name, "test")
    steps = await act_and_wait(request, person, deed, lambda: backstage.probe(kind, name))
    return {"steps": list(steps)}


def own_channels(backstage: Backstage, person: Person) -> dict[str, list[Mapping[str, Any]]]:
    """
    Give the listeners and destinations that serve a person's sites.

    `shared`: it serves others' too, so the person sees how it is and changes nothing.
    """
    return {
        f"{kind}s": [
            {**each, "sites": own, "shared": not _is_own(person, each["sites"])}
            for each in backstage.plant.channels(kind)
            if (own := _shown(person, each["sites"])) is not None
        ]
        for kind in ("listener", "destination")
    }


def _shown(person: Person, sites: list[str]) -> list[str] | None:
    """Give the sites of a channel that a person may know of; None: nothing of it."""
    reach = person.grant.reach
    if reach is None:
        return sites
    return [each for each in sites if reach and each in {ALL, *reach}] or None


def _is_own(person: Person, sites: list[str]) -> bool:
    return person.grant.reach is None or (ALL not in sites and person.grant.reaches(sites))


def _about(backstage: Backstage, person: Person, kind: Kind, name: str, action: str) -> Act:
    def sites() -> list[str]:
        for each in backstage.plant.channels(kind):
            if each["name"] == name and _shown(person, each["sites"]) is not None:
                if not _is_own(person, each["sites"]):
                    raise NotPermitted("change what serves others' sites too")
                return list(each["sites"])
        raise Unknown

    return Act((Permission.OPERATE,), action, f"{kind} {name}", sites)
