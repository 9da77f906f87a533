"""Who is here, and what the dashboard shows."""

import asyncio
from typing import Any

from fastapi import APIRouter

from bridge.console.backstage import Backstage
from bridge.console.figures import figures
from bridge.console.http.channels import own_channels
from bridge.console.http.guard import BackstageDep, Person, PersonDep
from bridge.console.permissions import Permission

router = APIRouter(prefix="/api")


@router.get("/me")
async def me(person: PersonDep) -> dict[str, Any]:
    """Say who is signed in, and what they may, on which sites (null: on all)."""
    grant = person.grant
    about = {"email": grant.email, "name": person.name, "theme": person.theme}
    sites = None if grant.reach is None else sorted(grant.reach)
    return {
        **about,
        "role": grant.role,
        "permissions": sorted(grant.permissions),
        "sites": sites,
    }


@router.get("/overview")
async def overview(person: PersonDep, backstage: BackstageDep) -> dict[str, Any]:
    """Give what the dashboard shows: of a person's own listeners and destinations."""
    person.grant.require(Permission.SEE)
    return await asyncio.to_thread(_overview, backstage, person)


def _overview(backstage: Backstage, person: Person) -> dict[str, Any]:
    channels = own_channels(backstage, person)
    names = {kind: {str(each["name"]) for each in found} for kind, found in channels.items()}
    limited = person.grant.reach is not None
    told = figures(
        backstage.database,
        backstage.clock(),
        listeners=names["listeners"] if limited else None,
        destinations=names["destinations"] if limited else None,
    )
    own = {f"listener {each}" for each in names["listeners"]}
    own |= {f"destination {each}" for each in names["destinations"]}
    alerts = [
        each
        for each in backstage.plant.alerts()
        if not limited or each["key"].partition(":")[2] in own
    ]
    return {**told, **channels, "alerts": alerts}
