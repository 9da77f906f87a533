"""
Messages: search, read, replay one or many, cancel, edit and resend; merges.

An operator undoes a wrong merge of patient numbers.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import Any

from fastapi import APIRouter

from bridge.admin import merges
from bridge.admin.access.permissions import Permission, require_fresh
from bridge.admin.channel_operations import charset_of
from bridge.admin.definitions.trials import mapping_result
from bridge.admin.errors import InvalidState, NoSuchItem, OperatorError
from bridge.admin.lists.listing import Access, Filters, ListPage
from bridge.admin.lists.messages import MessageList
from bridge.admin.message_replay import StoredMessageReplay
from bridge.admin.search import order_tracking
from bridge.admin.search.message_content import (
    editable_message,
    edits_of,
    encode_edit,
    message_text,
    segment_tree,
)
from bridge.admin.search.message_index import origin_of, read_numbers
from bridge.admin.search.order_tracking import message_timeline
from bridge.console.context import ConsoleContext
from bridge.console.http.bodies import (
    EditedMessageBody,
    MessageSearchBody,
    ResentMessageBody,
    UndoneMergeBody,
)
from bridge.console.http.guard import (
    AuditedAction,
    CallDep,
    ConsoleCall,
    ConsoleRoute,
    MessageRoute,
    await_audited,
    require_sites,
    run_audited,
)
from bridge.contract.requests import RowId
from bridge.errors import BridgeError
from bridge.executors import CONSOLE_THREADS
from bridge.queue import operations, queries
from bridge.queue.errors import IllegalTransition, NoSuchRow
from bridge.queue.listing_rows import MessageDetail, MessageRow
from bridge.queue.queries import ATTENTION
from bridge.queue.states import QueueState
from mappings.hl7.acknowledgment import read_ack

router = APIRouter(prefix="/api/messages", route_class=ConsoleRoute)
_MESSAGES = MessageList()
edit_router = APIRouter(prefix="/api/messages", route_class=MessageRoute)


@router.post("/search")
async def find(body: MessageSearchBody, call: CallDep) -> dict[str, Any]:
    """List messages, newest first; a search by number requires the permission `find`."""
    request, access = body.request(), Access.of(call.user.grant)

    def work() -> ListPage[MessageRow]:
        with call.context.database.read() as connection:
            return _MESSAGES.page(connection, request, access)

    if "number" not in request.filters:
        call.user.grant.require(Permission.SEE)
        page = await CONSOLE_THREADS.run(work)
    else:
        subject = f"messages by {request.filters['kind']} number"
        action = AuditedAction((Permission.FIND,), "search", subject)
        page = await run_audited(call, action, work)
    return {"rows": [asdict(row) for row in page.rows], "further": page.next}


@router.get("/{message_id}")
async def read(message_id: RowId, call: CallDep) -> dict[str, Any]:
    """Return a message with its timeline, without its content."""
    call.user.grant.require(Permission.SEE)
    return await CONSOLE_THREADS.run(_summary, call, message_id)


@router.get("/{message_id}/content")
async def content(message_id: RowId, call: CallDep) -> dict[str, Any]:
    """Return a message's text, segments, mapping result and acknowledgment."""
    action = _action(call.context, message_id, "read", Permission.BODIES)
    return await run_audited(call, action, lambda: _content(call.context, message_id))


@router.post("/{message_id}/replay")
async def replay(message_id: RowId, call: CallDep) -> dict[str, Any]:
    """Queue a message again; return how many later messages of its lanes were applied already."""
    action = _action(call.context, message_id, "replay", Permission.OPERATE)
    return {"later": await run_audited(call, action, lambda: _replay(call.context, message_id))}


@router.post("/{message_id}/cancel")
async def cancel(message_id: RowId, call: CallDep) -> dict[str, Any]:
    """Cancel a message, so that it is not applied."""
    action = _action(call.context, message_id, "cancel", Permission.OPERATE)
    await run_audited(call, action, lambda: _cancel(call.context, message_id))
    return {}


def sites_of_message(context: ConsoleContext, message_id: int) -> frozenset[str]:
    """Return the sites of a stored message. Raises NoSuchItem."""
    return context.subjects_of(origin_of(_detail(context, message_id))).sites


def _action(
    context: ConsoleContext,
    message_id: int,
    action: str,
    *permissions: Permission,
    reason: str = "",
) -> AuditedAction:
    subject = f"message {message_id}"
    sites = partial(sites_of_message, context, message_id)
    return AuditedAction(permissions, action, subject, sites, reason)


def _detail(context: ConsoleContext, message_id: int) -> MessageDetail:
    try:
        return queries.message(context.database, message_id)
    except NoSuchRow:
        raise NoSuchItem from None


def _summary(call: ConsoleCall, message_id: int) -> dict[str, Any]:
    detail = _detail(call.context, message_id)
    subjects = call.context.subjects_of(origin_of(detail))
    require_sites(call.user, subjects.sites)
    numbers = read_numbers(detail.payload).with_subjects(subjects)
    found = order_tracking.find_orders(
        call.context.database, numbers.order, call.user.grant.visible_sites
    )
    orders = [order for order in found if order["mrn"] in numbers.patient]
    reports = {order["report_id"] for order in orders} - {""}
    deliveries = order_tracking.report_deliveries(call.context.database, reports)
    edits = edits_of(call.context.database, message_id)
    attempts = order_tracking.attempts_of(
        call.context.database, deliveries, with_texts=call.user.reads_content
    )
    refusal = read_ack(detail.ack).text if detail.row.state is QueueState.REFUSED else ""
    steps = message_timeline(
        detail.row, orders, deliveries, edits, attempts=attempts, refusal=refusal
    )
    return {
        "row": asdict(detail.row),
        "timeline": steps,
        "edits": edits,
    }


def _content(context: ConsoleContext, message_id: int) -> dict[str, Any]:
    detail = _detail(context, message_id)
    mapping = context.subjects_of.definition(detail.row.mapping, detail.row.mapping_version)
    charset = _charset(context, detail.row.listener)
    return {
        "raw": message_text(detail.payload, charset),
        "tree": segment_tree(detail.payload, charset),
        "mapped": mapping_result(context.settings, context.database, mapping, detail),
        "ack": message_text(detail.ack, charset),
        "notes": detail.notes,
    }


def _charset(context: ConsoleContext, listener: str) -> str:
    return charset_of(context.settings, context.database, listener)


def _message_replay(context: ConsoleContext) -> StoredMessageReplay:
    return StoredMessageReplay(context.settings, context.database)


def _replay(context: ConsoleContext, message_id: int) -> int:
    _detail(context, message_id)
    return _replay_in_state(_message_replay(context), message_id)


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except BridgeError as error:
        raise InvalidState(str(error)) from None


def _cancel(context: ConsoleContext, message_id: int) -> None:
    _detail(context, message_id)
    try:
        operations.cancel_message(context.database, message_id)
    except IllegalTransition as error:
        raise InvalidState(str(error)) from None


MAX_REPLAYED = 1000


@router.post("/replay")
async def replay_all(body: MessageSearchBody, call: CallDep) -> dict[str, Any]:
    """Queue again the messages that a search finds; `more`: the search finds further messages."""
    filters, access = body.request().filters, Access.of(call.user.grant)
    permissions = (Permission.OPERATE, *([Permission.FIND] if "number" in filters else []))
    for permission in permissions:
        call.user.grant.require(permission)
    require_fresh(call.user.authenticated_at, call.context.clock())
    if body.state not in ATTENTION or body.state is QueueState.CANCELLED:
        raise InvalidState("search by the state parked or refused")
    ids, more = await CONSOLE_THREADS.run(_oldest_ids, call.context, filters, access)
    message_replay = await CONSOLE_THREADS.run(_message_replay, call.context)
    result: dict[str, Any] = {"queued": 0, "later": 0, "failed": [], "more": more}
    for message_id in ids:
        action = AuditedAction(permissions, "replay", f"message {message_id}")
        work = partial(_replay_in_state, message_replay, message_id, body.state)
        try:
            later = await run_audited(call, action, work)
        except OperatorError as refusal:
            result["failed"].append({"id": message_id, "detail": refusal.detail})
            continue
        result["queued"] += 1
        result["later"] += later
    return result


def _oldest_ids(
    context: ConsoleContext, filters: Filters, access: Access
) -> tuple[list[int], bool]:
    """
    Return the oldest ids that a search finds, oldest first, and whether there are more.

    A patient's older message must be queued before a newer one.
    """
    with context.database.read() as connection:
        upper = _MESSAGES.newest_id(connection)
    ids: list[int] = []
    cursor, complete = 0, False
    while not complete and len(ids) <= MAX_REPLAYED:
        with context.database.read() as connection:
            page = _MESSAGES.ids_after(
                connection, filters, access, cursor, upper, MAX_REPLAYED + 1 - len(ids)
            )
        ids += page.ids
        cursor, complete = page.cursor, page.complete
    return ids[:MAX_REPLAYED], len(ids) > MAX_REPLAYED


def _replay_in_state(
    message_replay: StoredMessageReplay, message_id: int, state: QueueState | None = None
) -> int:
    with _refusals():
        return message_replay.replay(message_id, state)


_EDIT = (Permission.EDIT, Permission.BODIES)


@edit_router.get("/{message_id}/sheet")
async def editable(message_id: RowId, call: CallDep) -> dict[str, Any]:
    """Return a message's segments as text for editing."""
    action = _action(call.context, message_id, "read", *_EDIT)

    def work() -> dict[str, Any]:
        detail = _detail(call.context, message_id)
        charset = _charset(call.context, detail.row.listener)
        message = editable_message(detail.payload, charset)
        return {"segments": list(message.segments), "charset": message.codec}

    return await run_audited(call, action, work)


@edit_router.post("/{message_id}/check")
async def check(message_id: RowId, body: EditedMessageBody, call: CallDep) -> dict[str, Any]:
    """Return the reasons for which an edited message would be refused."""
    for permission in _EDIT:
        call.user.grant.require(permission)

    def work() -> dict[str, Any]:
        require_sites(call.user, sites_of_message(call.context, message_id))
        return {"faults": _check(call, message_id, body.segments)[0]}

    return await CONSOLE_THREADS.run(work)


@edit_router.post("/{message_id}/send-again")
async def resend(message_id: RowId, body: ResentMessageBody, call: CallDep) -> dict[str, Any]:
    """Store the edited message as a new one, linked to the original, and queue it."""
    action = _action(call.context, message_id, "send again", *_EDIT, reason=body.reason.strip())
    return await run_audited(call, action, lambda: _resend(call, message_id, body))


def _check(
    call: ConsoleCall, message_id: int, segments: list[str]
) -> tuple[list[dict[str, Any]], bytes]:
    """Return the faults of an edited message, and its bytes."""
    detail = _detail(call.context, message_id)
    listener = detail.row.listener
    payload = encode_edit(detail.payload, segments, _charset(call.context, listener))
    message_replay = _message_replay(call.context)
    with _refusals():
        faults = [dict(fault) for fault in message_replay.faults(listener, payload)]
        visible = faults or call.user.grant.sees(message_replay.sites(listener, payload))
    if not visible:
        faults = [{"code": "", "place": "", "text": "the message belongs to another site"}]
    return faults, payload


def _resend(call: ConsoleCall, message_id: int, body: ResentMessageBody) -> dict[str, Any]:
    faults, payload = _check(call, message_id, body.segments)
    if faults:
        texts = (f"{fault['place']} {fault['text']}".strip() for fault in faults)
        raise InvalidState("; ".join(texts))
    message_replay = _message_replay(call.context)
    reason = body.reason.strip()
    with _refusals():
        return {"id": message_replay.resend(message_id, payload, call.user.grant.email, reason)}


merge_router = APIRouter(prefix="/api/merges", route_class=ConsoleRoute)


@merge_router.post("/undo")
async def undo(body: UndoneMergeBody, call: CallDep) -> dict[str, Any]:
    """
    Undo the merge of a number, which is in the body because addresses are logged.

    Returns how many orders the merge had moved; they are exceptions now.
    """
    database, client = call.context.database, call.context.engine.client
    action = AuditedAction(
        (Permission.FIND, Permission.OPERATE),
        "undo merge",
        f"merge {merges.reference_of(body.site, body.number)}",
        lambda: [body.site],
        reason=body.reason,
    )

    async def work() -> int:
        try:
            found = await CONSOLE_THREADS.run(merges.find, database, body.number, body.site)
        except merges.NoSuchMerge:
            raise NoSuchItem from None
        return await merges.undo_pointer(database, client, found)

    return {"orders": await await_audited(call, action, work)}
