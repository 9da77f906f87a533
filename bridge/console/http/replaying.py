"""Replay many: all that a search finds among what is parked or refused, oldest first."""

from dataclasses import replace
from functools import partial
from typing import Any

from fastapi import APIRouter, Request

from bridge.console.backstage import Backstage
from bridge.console.errors import ConsoleError, Impossible
from bridge.console.http.bodies import MessageSearch
from bridge.console.http.guard import Act, BackstageDep, PersonDep, act
from bridge.console.http.route import ConsoleRoute
from bridge.console.permissions import Permission, require_fresh
from bridge.console.searching import Search, search
from bridge.errors import BridgeError
from bridge.executors import Threads
from bridge.queue.browse import ATTENTION
from bridge.queue.states import State

router = APIRouter(prefix="/api/messages", route_class=ConsoleRoute)
MOST = 1000
_PAGE = 2000


@router.post("/replay")
async def replay_all(
    body: MessageSearch, request: Request, person: PersonDep, backstage: BackstageDep
) -> dict[str, Any]:
    """Queue all again that a search finds; say how many, which could not be, and what is left."""
    wanted = body.wanted(person.grant.reach)
    needs = (Permission.OPERATE, *([Permission.FIND] if wanted.kind else []))
    for each in needs:
        person.grant.require(each)
    require_fresh(person.authenticated_at, backstage.clock())
    if wanted.state not in ATTENTION or wanted.state is State.CANCELLED:
        raise Impossible("choose those that are parked, or those that were refused")
    ids, more = await Threads.CONSOLE.run(_chosen, backstage, wanted)
    rejudging = await Threads.CONSOLE.run(backstage.plant.rejudging)
    told: dict[str, Any] = {"queued": 0, "later": 0, "failed": [], "more": more}
    for message_id in ids:
        deed = Act(needs, "replay", f"message {message_id}")
        try:
            later = await act(
                request, person, deed, partial(_replay, rejudging, message_id, wanted.state)
            )
        except ConsoleError as refusal:
            told["failed"].append({"id": message_id, "detail": refusal.detail})
            continue
        told["queued"] += 1
        told["later"] += later
    return told


def _chosen(backstage: Backstage, wanted: Search) -> tuple[list[int], bool]:
    """
    Give the oldest ids of what is found, oldest first, and whether there are more.

    A search gives the newest first: all of it is looked at, for an older message of a patient
    must not come after a newer one.
    """
    ids: list[int] = []
    before, more = wanted.before, False
    while True:
        page = search(backstage.database, replace(wanted, before=before, limit=_PAGE))
        ids = [*(row.id for row in reversed(page.rows)), *ids]
        more = more or len(ids) > MOST
        del ids[MOST:]
        before = page.further
        if before is None:
            return ids, more


def _replay(rejudging: Any, message_id: int, chosen: State | None) -> int:
    try:
        later: int = rejudging.replay(message_id, chosen)
    except BridgeError as error:
        raise Impossible(str(error)) from None
    return later
