"""Messages: search, read, replay one or many, cancel."""

from dataclasses import asdict, replace
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request

from bridge.console import order_tracking
from bridge.console.errors import ConsoleError, Impossible, Unknown
from bridge.console.http.bodies import MessageSearch
from bridge.console.http.guard import Act, BackstageDep, Person, PersonDep, act, within_reach
from bridge.console.http.route import ConsoleRoute
from bridge.console.message_index import numbers
from bridge.console.message_search import Search, search
from bridge.console.message_view import edits_of, readable, tree
from bridge.console.order_tracking import timeline
from bridge.console.ownership import origin_of
from bridge.console.permissions import Permission, require_fresh
from bridge.console.services import Backstage
from bridge.errors import BridgeError
from bridge.executors import Threads
from bridge.queue import browse, operations
from bridge.queue.browse import ATTENTION
from bridge.queue.errors import IllegalTransition, NoSuchRow
from bridge.queue.listing_rows import MessageDetail
from bridge.queue.states import State

router = APIRouter(prefix="/api/messages", route_class=ConsoleRoute)
Key = Annotated[int, Path(ge=1, lt=2**63)]


@router.post("/search")
async def find(
    body: MessageSearch, request: Request, person: PersonDep, backstage: BackstageDep
) -> dict[str, Any]:
    """List messages, newest first; by the numbers of patients only for those who may find."""
    wanted = body.wanted(person.grant.reach)
    if wanted.kind is None:
        person.grant.require(Permission.SEE)
        page = await Threads.CONSOLE.run(search, backstage.database, wanted)
    else:
        deed = Act((Permission.FIND,), "search", f"messages by {wanted.kind} number")
        page = await act(request, person, deed, lambda: search(backstage.database, wanted))
    return {"rows": [asdict(row) for row in page.rows], "further": page.further}


@router.get("/{message_id}")
async def read(message_id: Key, person: PersonDep, backstage: BackstageDep) -> dict[str, Any]:
    """Give one message's row and its way in time; nothing of what it says."""
    person.grant.require(Permission.SEE)
    return await Threads.CONSOLE.run(_told, backstage, person, message_id)


@router.get("/{message_id}/content")
async def content(
    message_id: Key, request: Request, person: PersonDep, backstage: BackstageDep
) -> dict[str, Any]:
    """Give what a message says: raw, as a tree, as it was mapped, and its acknowledgment."""
    deed = about(backstage, message_id, "read", Permission.BODIES)
    return await act(request, person, deed, lambda: _content(backstage, message_id))


@router.post("/{message_id}/replay")
async def replay(
    message_id: Key, request: Request, person: PersonDep, backstage: BackstageDep
) -> dict[str, Any]:
    """Queue a message again; say how many later ones of its patient were applied meanwhile."""
    deed = about(backstage, message_id, "replay", Permission.OPERATE)
    return {"later": await act(request, person, deed, lambda: _replay(backstage, message_id))}


@router.post("/{message_id}/cancel")
async def cancel(
    message_id: Key, request: Request, person: PersonDep, backstage: BackstageDep
) -> dict[str, Any]:
    """Decide that a message is not to be applied."""
    deed = about(backstage, message_id, "cancel", Permission.OPERATE)
    await act(request, person, deed, lambda: _cancel(backstage, message_id))
    return {}


def about(
    backstage: Backstage, message_id: int, action: str, *needs: Permission, reason: str = ""
) -> Act:
    """Make an act on a message, which must be of the person's sites."""
    subject = f"message {message_id}"
    return Act(needs, action, subject, lambda: sites_of(backstage, message_id), reason)


def sites_of(backstage: Backstage, message_id: int) -> frozenset[str]:
    """Give the sites of a stored message. Raises Unknown."""
    return backstage.belonging(origin_of(found(backstage, message_id))).sites


def _told(backstage: Backstage, person: Person, message_id: int) -> dict[str, Any]:
    detail = found(backstage, message_id)
    about = backstage.belonging(origin_of(detail))
    within_reach(person, about.sites)
    own = numbers(detail.payload).joined(about)
    known = order_tracking.orders(backstage.database, own.order, person.grant.reach)
    orders = [each for each in known if each["mrn"] in own.patient]
    reports = {each["report_id"] for each in orders} - {""}
    sent = order_tracking.deliveries(backstage.database, reports)
    edits = edits_of(backstage.database, message_id)
    return {
        "row": asdict(detail.row),
        "timeline": timeline(detail.row, orders, sent, edits),
        "edits": edits,
    }


def _content(backstage: Backstage, message_id: int) -> dict[str, Any]:
    detail = found(backstage, message_id)
    charset = backstage.plant.charset(detail.row.listener)
    return {
        "raw": readable(detail.payload, charset),
        "tree": tree(detail.payload, charset),
        "mapped": backstage.plant.mapped(detail),
        "ack": readable(detail.ack, charset),
        "notes": detail.notes,
    }


def found(backstage: Backstage, message_id: int) -> MessageDetail:
    """Give a stored message. Raises Unknown."""
    try:
        return browse.message(backstage.database, message_id)
    except NoSuchRow:
        raise Unknown from None


def _replay(backstage: Backstage, message_id: int) -> int:
    found(backstage, message_id)
    try:
        return backstage.plant.rejudging().replay(message_id)
    except BridgeError as error:
        raise Impossible(str(error)) from None


def _cancel(backstage: Backstage, message_id: int) -> None:
    found(backstage, message_id)
    try:
        operations.cancel_message(backstage.database, message_id)
    except IllegalTransition as error:
        raise Impossible(str(error)) from None


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
                request, person, deed, partial(_replay_many, rejudging, message_id, wanted.state)
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


def _replay_many(rejudging: Any, message_id: int, chosen: State | None) -> int:
    try:
        later: int = rejudging.replay(message_id, chosen)
    except BridgeError as error:
        raise Impossible(str(error)) from None
    return later
