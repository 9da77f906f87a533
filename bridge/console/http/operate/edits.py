"""Edit and resend: an edited copy of a received message or of a delivery is sent again."""

from dataclasses import asdict
from typing import Any, Final

from fastapi import APIRouter

from bridge.admin.access.permissions import Permission
from bridge.admin.items.resending import ReceivedMessage, Resendable, SentDelivery
from bridge.console.context import ConsoleContext
from bridge.console.http.guard import (
    AuditedAction,
    CallDep,
    ConsoleCall,
    MessageRoute,
    require_sites,
    run_audited,
)
from bridge.console.http.models.bodies import EditedMessageBody, ResentMessageBody
from bridge.contract.requests import RowId
from bridge.executors import CONSOLE_THREADS

_PERMISSIONS: Final = (Permission.EDIT, Permission.BODIES)
message_router = APIRouter(prefix="/api/messages", route_class=MessageRoute)
delivery_router = APIRouter(prefix="/api/deliveries", route_class=MessageRoute)


@message_router.get("/{message_id}/sheet")
async def editable(message_id: RowId, call: CallDep) -> dict[str, Any]:
    """Return a message's segments as text for editing."""
    return await _sheet(call, _received(call.context, message_id))


@message_router.post("/{message_id}/check")
async def check(message_id: RowId, body: EditedMessageBody, call: CallDep) -> dict[str, Any]:
    """Return the reasons for which an edited message would be refused."""
    return await _faults(call, _received(call.context, message_id), body)


@message_router.post("/{message_id}/send-again")
async def resend(message_id: RowId, body: ResentMessageBody, call: CallDep) -> dict[str, Any]:
    """Store the edited message as a new one, linked to the original, and queue it."""
    return await _resend(call, _received(call.context, message_id), body)


@delivery_router.get("/{delivery_id}/sheet")
async def editable_delivery(delivery_id: RowId, call: CallDep) -> dict[str, Any]:
    """Return the segments of a delivery's message as text for editing."""
    return await _sheet(call, _sent(call.context, delivery_id))


@delivery_router.post("/{delivery_id}/check")
async def check_delivery(
    delivery_id: RowId, body: EditedMessageBody, call: CallDep
) -> dict[str, Any]:
    """Return the reasons for which an edited copy would not be sent."""
    return await _faults(call, _sent(call.context, delivery_id), body)


@delivery_router.post("/{delivery_id}/send-again")
async def resend_delivery(
    delivery_id: RowId, body: ResentMessageBody, call: CallDep
) -> dict[str, Any]:
    """
    Send the edited copy as a new delivery with a new MSH-10, linked to the original.

    An original that was not accepted yet is skipped: the copy takes its place.
    """
    return await _resend(call, _sent(call.context, delivery_id), body)


def _received(context: ConsoleContext, message_id: int) -> Resendable:
    return ReceivedMessage(context.settings, context.database, context.subjects_of, message_id)


def _sent(context: ConsoleContext, delivery_id: int) -> Resendable:
    return SentDelivery(context.settings, context.database, delivery_id)


async def _sheet(call: ConsoleCall, original: Resendable) -> dict[str, Any]:
    action = AuditedAction(_PERMISSIONS, "read", original.subject, original.sites, is_reading=True)

    def work() -> dict[str, Any]:
        found = original.sheet()
        return {"segments": list(found.segments), "charset": found.codec}

    return await run_audited(call, action, work)


async def _faults(
    call: ConsoleCall, original: Resendable, body: EditedMessageBody
) -> dict[str, Any]:
    for permission in _PERMISSIONS:
        call.user.grant.require(permission)

    def work() -> dict[str, Any]:
        require_sites(call.user, original.sites())
        faults = original.faults(body.segments, call.user.grant.sees)
        return {"faults": [asdict(fault) for fault in faults]}

    return await CONSOLE_THREADS.run(work)


async def _resend(
    call: ConsoleCall, original: Resendable, body: ResentMessageBody
) -> dict[str, Any]:
    grant, reason = call.user.grant, body.reason.strip()
    action = AuditedAction(
        _PERMISSIONS, "send again", original.subject, original.sites, reason=reason
    )

    def work() -> dict[str, Any]:
        return {"id": original.resend(body.segments, grant.sees, grant.email, reason)}

    return await run_audited(call, action, work)
