"""What was applied and still wants a person: list, and say that somebody has looked."""

from collections.abc import Collection
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request

from bridge.console import exceptions
from bridge.console.errors import Unknown
from bridge.console.http.guard import Act, BackstageDep, PersonDep, act
from bridge.console.http.messages import sites_of
from bridge.console.http.route import ConsoleRoute
from bridge.console.permissions import Permission
from bridge.console.services import Backstage
from bridge.executors import Threads
from bridge.store.records import exceptions as kept
from bridge.store.records.exceptions import Subject

router = APIRouter(prefix="/api/concerns", route_class=ConsoleRoute)
Row = Annotated[int, Path(ge=1, lt=2**63)]


@router.get("")
async def listed(person: PersonDep, backstage: BackstageDep) -> dict[str, Any]:
    """List what nobody has seen, then what was seen last; orders for those who may find."""
    person.grant.require(Permission.SEE)
    find = Permission.FIND in person.grant.permissions
    reach = person.grant.reach
    work = partial(exceptions.listed, backstage.database, backstage.belonging, reach, find=find)
    found = await Threads.CONSOLE.run(work)
    return {"rows": found}


@router.post("/{kind}/{row_id}/seen")
async def seen(
    kind: Subject, row_id: Row, request: Request, person: PersonDep, backstage: BackstageDep
) -> dict[str, Any]:
    """Say that one has looked: who and when is kept, and whoever is told of it hears no more."""
    email = person.grant.email

    def work() -> None:
        if not kept.seen(backstage.database, [(kind, row_id)], backstage.clock(), email):
            raise Unknown

    deed = Act(
        (Permission.OPERATE,),
        "acknowledge",
        f"{kind} {row_id}",
        lambda: _sites(backstage, kind, row_id),
    )
    await act(request, person, deed, work)
    return {}


def _sites(backstage: Backstage, kind: Subject, row_id: int) -> Collection[str]:
    if kind is Subject.FEED:
        return ()  # of no site: only those who reach all
    if kind is Subject.MESSAGE:
        return sites_of(backstage, row_id)
    return exceptions.site_of_order(backstage.database, row_id)
