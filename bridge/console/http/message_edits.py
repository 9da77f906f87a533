"""Edit a stored message and send it again: a new message, linked to the old one, which stays."""

from typing import Any

from fastapi import APIRouter, Request

from bridge.console.context import ConsoleContext
from bridge.console.errors import InvalidState
from bridge.console.http.bodies import EditedMessageBody, ResentMessageBody
from bridge.console.http.guard import ConsoleUser, ContextDep, UserDep, require_reach, run_audited
from bridge.console.http.messages import Key, about, found, sites_of
from bridge.console.http.route import MessageRoute
from bridge.console.message_view import editable_message, encode_edit
from bridge.console.permissions import Permission
from bridge.errors import BridgeError
from bridge.executors import Threads

router = APIRouter(prefix="/api/messages", route_class=MessageRoute)
_NEEDS = (Permission.EDIT, Permission.BODIES)


@router.get("/{message_id}/sheet")
async def lay_out(
    message_id: Key, request: Request, user: UserDep, context: ContextDep
) -> dict[str, Any]:
    """Give a message's segments as text, to be edited."""
    action = about(context, message_id, "read", *_NEEDS)

    def work() -> dict[str, Any]:
        detail = found(context, message_id)
        laid = editable_message(detail.payload, context.installation.charset(detail.row.listener))
        return {"segments": list(laid.segments), "charset": laid.codec}

    return await run_audited(request, user, action, work)


@router.post("/{message_id}/check")
async def check(
    message_id: Key, body: EditedMessageBody, user: UserDep, context: ContextDep
) -> dict[str, Any]:
    """Say why an edited message would be refused; `faults` is empty where it would be taken."""
    for each in _NEEDS:
        user.grant.require(each)

    def work() -> dict[str, Any]:
        require_reach(user, sites_of(context, message_id))
        return {"faults": _faults(context, user, message_id, body.segments)}

    return await Threads.CONSOLE.run(work)


@router.post("/{message_id}/send-again")
async def send_again(
    message_id: Key,
    body: ResentMessageBody,
    request: Request,
    user: UserDep,
    context: ContextDep,
) -> dict[str, Any]:
    """Store the edited message as a new one, and queue it; give its id."""
    action = about(context, message_id, "send again", *_NEEDS, reason=body.reason.strip())
    return await run_audited(request, user, action, lambda: _sent(context, user, message_id, body))


def _faults(
    context: ConsoleContext, user: ConsoleUser, message_id: int, segments: list[str]
) -> list[dict[str, Any]]:
    row, payload = _written(context, message_id, segments)
    message_replay = context.installation.message_replay()
    try:
        faults = [dict(each) for each in message_replay.faults(row.listener, payload)]
        own = faults or user.grant.reaches(message_replay.sites(row.listener, payload))
    except BridgeError as error:
        raise InvalidState(str(error)) from None
    return faults if own else [{"code": "", "place": "", "text": "it speaks of another site"}]


def _sent(
    context: ConsoleContext, user: ConsoleUser, message_id: int, body: ResentMessageBody
) -> dict[str, Any]:
    faults = _faults(context, user, message_id, body.segments)
    if faults:
        raise InvalidState("; ".join(f"{each['place']} {each['text']}".strip() for each in faults))
    _, payload = _written(context, message_id, body.segments)
    message_replay = context.installation.message_replay()
    try:
        made = message_replay.resend(message_id, payload, user.grant.email, body.reason.strip())
    except BridgeError as error:
        raise InvalidState(str(error)) from None
    return {"id": made}


def _written(context: ConsoleContext, message_id: int, segments: list[str]) -> tuple[Any, bytes]:
    detail = found(context, message_id)
    charset = context.installation.charset(detail.row.listener)
    return detail.row, encode_edit(detail.payload, segments, charset)
