"""Messages: search, read, replay one or many, cancel."""

from dataclasses import asdict, replace
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request

from bridge.console import order_tracking
from bridge.console.context import ConsoleContext
from bridge.console.errors import ConsoleError, InvalidState, NoSuchItem
from bridge.console.http.bodies import MessageSearchBody
from bridge.console.http.guard import (
    AuditedAction,
    ConsoleUser,
    ContextDep,
    UserDep,
    require_reach,
    run_audited,
)
from bridge.console.http.route import ConsoleRoute
from bridge.console.message_index import read_numbers
from bridge.console.message_search import MessageQuery, search_messages
from bridge.console.message_view import edits_of, message_text, segment_tree
from bridge.console.order_tracking import message_timeline
from bridge.console.ownership import origin_of
from bridge.console.permissions import Permission, require_fresh
from bridge.errors import BridgeError
from bridge.executors import Threads
from bridge.queue import operations, queries
from bridge.queue.errors import IllegalTransition, NoSuchRow
from bridge.queue.listing_rows import MessageDetail
from bridge.queue.queries import ATTENTION
from bridge.queue.states import QueueState

router = APIRouter(prefix="/api/messages", route_class=ConsoleRoute)
Key = Annotated[int, Path(ge=1, lt=2**63)]


@router.post("/search")
async def find(
    body: MessageSearchBody, request: Request, user: UserDep, context: ContextDep
) -> dict[str, Any]:
    """List messages, newest first; by the numbers of patients only for those who may find."""
    wanted = body.wanted(user.grant.reach)
    if wanted.kind is None:
        user.grant.require(Permission.SEE)
        page = await Threads.CONSOLE.run(search_messages, context.database, wanted)
    else:
        action = AuditedAction((Permission.FIND,), "search", f"messages by {wanted.kind} number")
        page = await run_audited(
            request, user, action, lambda: search_messages(context.database, wanted)
        )
    return {"rows": [asdict(row) for row in page.rows], "further": page.further}


@router.get("/{message_id}")
async def read(message_id: Key, user: UserDep, context: ContextDep) -> dict[str, Any]:
    """Give one message's row and its way in time; nothing of what it says."""
    user.grant.require(Permission.SEE)
    return await Threads.CONSOLE.run(_told, context, user, message_id)


@router.get("/{message_id}/content")
async def content(
    message_id: Key, request: Request, user: UserDep, context: ContextDep
) -> dict[str, Any]:
    """Give what a message says: raw, as a tree, as it was mapped, and its acknowledgment."""
    action = about(context, message_id, "read", Permission.BODIES)
    return await run_audited(request, user, action, lambda: _content(context, message_id))


@router.post("/{message_id}/replay")
async def replay(
    message_id: Key, request: Request, user: UserDep, context: ContextDep
) -> dict[str, Any]:
    """Queue a message again; say how many later ones of its patient were applied meanwhile."""
    action = about(context, message_id, "replay", Permission.OPERATE)
    return {"later": await run_audited(request, user, action, lambda: _replay(context, message_id))}


@router.post("/{message_id}/cancel")
async def cancel(
    message_id: Key, request: Request, user: UserDep, context: ContextDep
) -> dict[str, Any]:
    """Decide that a message is not to be applied."""
    action = about(context, message_id, "cancel", Permission.OPERATE)
    await run_audited(request, user, action, lambda: _cancel(context, message_id))
    return {}


def about(
    context: ConsoleContext, message_id: int, action: str, *needs: Permission, reason: str = ""
) -> AuditedAction:
    """Make an act on a message, which must be of the person's sites."""
    subject = f"message {message_id}"
    return AuditedAction(needs, action, subject, lambda: sites_of(context, message_id), reason)


def sites_of(context: ConsoleContext, message_id: int) -> frozenset[str]:
    """Give the sites of a stored message. Raises Unknown."""
    return context.subjects_of(origin_of(found(context, message_id))).sites


def _told(context: ConsoleContext, user: ConsoleUser, message_id: int) -> dict[str, Any]:
    detail = found(context, message_id)
    about = context.subjects_of(origin_of(detail))
    require_reach(user, about.sites)
    own = read_numbers(detail.payload).joined(about)
    known = order_tracking.find_orders(context.database, own.order, user.grant.reach)
    orders = [each for each in known if each["mrn"] in own.patient]
    reports = {each["report_id"] for each in orders} - {""}
    sent = order_tracking.report_deliveries(context.database, reports)
    edits = edits_of(context.database, message_id)
    return {
        "row": asdict(detail.row),
        "timeline": message_timeline(detail.row, orders, sent, edits),
        "edits": edits,
    }


def _content(context: ConsoleContext, message_id: int) -> dict[str, Any]:
    detail = found(context, message_id)
    charset = context.installation.charset(detail.row.listener)
    return {
        "raw": message_text(detail.payload, charset),
        "tree": segment_tree(detail.payload, charset),
        "mapped": context.installation.mapped(detail),
        "ack": message_text(detail.ack, charset),
        "notes": detail.notes,
    }


def found(context: ConsoleContext, message_id: int) -> MessageDetail:
    """Give a stored message. Raises Unknown."""
    try:
        return queries.message(context.database, message_id)
    except NoSuchRow:
        raise NoSuchItem from None


def _replay(context: ConsoleContext, message_id: int) -> int:
    found(context, message_id)
    try:
        return context.installation.message_replay().replay(message_id)
    except BridgeError as error:
        raise InvalidState(str(error)) from None


def _cancel(context: ConsoleContext, message_id: int) -> None:
    found(context, message_id)
    try:
        operations.cancel_message(context.database, message_id)
    except IllegalTransition as error:
        raise InvalidState(str(error)) from None


MOST = 1000
_PAGE = 2000


@router.post("/replay")
async def replay_all(
    body: MessageSearchBody, request: Request, user: UserDep, context: ContextDep
) -> dict[str, Any]:
    """Queue all again that a search finds; say how many, which could not be, and what is left."""
    wanted = body.wanted(user.grant.reach)
    needs = (Permission.OPERATE, *([Permission.FIND] if wanted.kind else []))
    for each in needs:
        user.grant.require(each)
    require_fresh(user.authenticated_at, context.clock())
    if wanted.state not in ATTENTION or wanted.state is QueueState.CANCELLED:
        raise InvalidState("choose those that are parked, or those that were refused")
    ids, more = await Threads.CONSOLE.run(_chosen, context, wanted)
    message_replay = await Threads.CONSOLE.run(context.installation.message_replay)
    told: dict[str, Any] = {"queued": 0, "later": 0, "failed": [], "more": more}
    for message_id in ids:
        action = AuditedAction(needs, "replay", f"message {message_id}")
        try:
            later = await run_audited(
                request,
                user,
                action,
                partial(_replay_many, message_replay, message_id, wanted.state),
            )
        except ConsoleError as refusal:
            told["failed"].append({"id": message_id, "detail": refusal.detail})
            continue
        told["queued"] += 1
        told["later"] += later
    return told


def _chosen(context: ConsoleContext, wanted: MessageQuery) -> tuple[list[int], bool]:
    """
    Give the oldest ids of what is found, oldest first, and whether there are more.

    A search gives the newest first: all of it is looked at, for an older message of a patient
    must not come after a newer one.
    """
    ids: list[int] = []
    before, more = wanted.before, False
    while True:
        page = search_messages(context.database, replace(wanted, before=before, limit=_PAGE))
        ids = [*(row.id for row in reversed(page.rows)), *ids]
        more = more or len(ids) > MOST
        del ids[MOST:]
        before = page.further
        if before is None:
            return ids, more


def _replay_many(message_replay: Any, message_id: int, chosen: QueueState | None) -> int:
    try:
        later: int = message_replay.replay(message_id, chosen)
    except BridgeError as error:
        raise InvalidState(str(error)) from None
    return later
