"""Messages: read, compare, replay, cancel."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query

from bridge.admin.access.permissions import Permission
from bridge.admin.channel_operations import charset_of
from bridge.admin.errors import InvalidState, NoSuchItem
from bridge.admin.items.message_page import message_content, message_page
from bridge.admin.items.message_patients import message_patients
from bridge.admin.items.neighbours import differences_of, neighbours, previous_of_order
from bridge.admin.lists.listing import Access
from bridge.admin.messages.message_index import origin_of
from bridge.admin.messages.message_replay import StoredMessageReplay
from bridge.console.context import ConsoleContext
from bridge.console.http.guard import (
    AuditedAction,
    CallDep,
    ConsoleCall,
    ConsoleRoute,
    require_sites,
    run_audited,
)
from bridge.console.http.models.items import (
    DifferenceBody,
    MessageContent,
    MessageNeighbours,
    MessagePage,
)
from bridge.contract.requests import RowId
from bridge.errors import BridgeError
from bridge.executors import CONSOLE_THREADS
from bridge.queue import operations, queries
from bridge.queue.errors import IllegalTransition, NoSuchRow
from bridge.queue.listing_rows import MessageDetail
from mappings.inbound.definition import Subjects

router = APIRouter(prefix="/api/messages", route_class=ConsoleRoute)
Other = Annotated[RowId | None, Query()]


@router.get("/{message_id}", responses={200: {"model": MessagePage}})
async def read(message_id: RowId, call: CallDep) -> dict[str, Any]:
    """Return a message with its timeline, edits and orders, without its content."""
    call.user.grant.require(Permission.SEE)
    return await CONSOLE_THREADS.run(_page, call, message_id)


@router.get("/{message_id}/content", responses={200: {"model": MessageContent}})
async def content(message_id: RowId, call: CallDep) -> dict[str, Any]:
    """
    Return a message's text and tree, its acknowledgment, calls and notes.

    `patients` are those whom it names, their survivors, and those who have its orders.
    """
    work = partial(_content, call.context, message_id)
    return await run_audited(call, reading(call.context, message_id), work)


@router.get("/{message_id}/neighbours", responses={200: {"model": MessageNeighbours}})
async def around(message_id: RowId, call: CallDep) -> dict[str, Any]:
    """Return the messages before and after one, of the same patient, order and sender."""
    call.user.grant.require(Permission.SEE)
    return await CONSOLE_THREADS.run(_neighbours, call, message_id)


@router.get("/{message_id}/difference", responses={200: {"model": DifferenceBody}})
async def difference(message_id: RowId, call: CallDep, other: Other = None) -> dict[str, Any]:
    """
    Return what a message has changed since another one.

    Without `other` it is the message before it of the same order, None if there is none.
    """
    context = call.context
    if other is None:
        call.user.grant.require(Permission.BODIES)
        other = await CONSOLE_THREADS.run(_previous, call, message_id)
    if other is None:
        return {"other": None, "differences": []}
    await run_audited(call, reading(context, other), lambda: None)
    work = partial(_difference, context, message_id, other)
    return await run_audited(call, reading(context, message_id), work)


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


def reading(context: ConsoleContext, message_id: int) -> AuditedAction:
    """Return the action of reading a part of a message's content."""
    sites = partial(sites_of_message, context, message_id)
    return AuditedAction(
        (Permission.BODIES,), "read", f"message {message_id}", sites, is_reading=True
    )


def _visible(call: ConsoleCall, message_id: int) -> tuple[MessageDetail, Subjects]:
    """Return a message and what it is about. Raises NoSuchItem, also if the user may not see it."""
    detail = _detail(call.context, message_id)
    subjects = call.context.subjects_of(origin_of(detail))
    require_sites(call.user, subjects.sites)
    return detail, subjects


def _page(call: ConsoleCall, message_id: int) -> dict[str, Any]:
    detail, subjects = _visible(call, message_id)
    access = Access.of(call.user.grant)
    return message_page(call.context.database, detail, subjects, access)


def _content(context: ConsoleContext, message_id: int) -> dict[str, Any]:
    detail = _detail(context, message_id)
    patients = message_patients(context.database, context.subjects_of, detail)
    return message_content(detail, _charset(context, detail.row.listener), patients)


def _neighbours(call: ConsoleCall, message_id: int) -> dict[str, Any]:
    _visible(call, message_id)
    context, sites = call.context, call.user.grant.visible_sites
    return asdict(neighbours(context.database, context.subjects_of, message_id, sites))


def _previous(call: ConsoleCall, message_id: int) -> int | None:
    _visible(call, message_id)
    context, sites = call.context, call.user.grant.visible_sites
    return previous_of_order(context.database, context.subjects_of, message_id, sites)


def _difference(context: ConsoleContext, message_id: int, other: int) -> dict[str, Any]:
    detail = _detail(context, message_id)
    charset = partial(_charset, context)
    found = differences_of(context.database, other, detail, charset)
    return {"other": other, "differences": [asdict(difference) for difference in found]}


def _charset(context: ConsoleContext, listener: str) -> str:
    return charset_of(context.settings, context.database, listener)


def _message_replay(context: ConsoleContext) -> StoredMessageReplay:
    return StoredMessageReplay(context.settings, context.database)


def _replay(context: ConsoleContext, message_id: int) -> int:
    _detail(context, message_id)
    with _refusals():
        return _message_replay(context).replay(message_id)


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
