"""
Merged patient numbers: list, show what moved, undo, correct results.

Numbers are in the bodies, because addresses are logged.
"""

from collections.abc import Awaitable
from dataclasses import asdict
from typing import Any, TypeVar

from fastapi import APIRouter

from bridge.admin.access.permissions import Permission
from bridge.admin.errors import InvalidState, NoSuchItem
from bridge.admin.orders import merges
from bridge.admin.orders.wrong_results import Corrections, receivers_of
from bridge.console.http.guard import (
    AuditedAction,
    CallDep,
    ConsoleCall,
    ConsoleRoute,
    await_audited,
    run_audited,
)
from bridge.console.http.models.bodies import (
    CorrectedMergeBody,
    MergeBody,
    MergesBody,
    UndoneMergeBody,
)
from bridge.executors import CONSOLE_THREADS
from bridge.orders.patients import MergePointer
from bridge.store.records.identifier_changes import UndoChoice

router = APIRouter(prefix="/api/merges", route_class=ConsoleRoute)
T = TypeVar("T")
_READ = (Permission.FIND, Permission.BODIES)
_CHANGE = (Permission.FIND, Permission.OPERATE)


@router.post("")
async def list_merges(body: MergesBody, call: CallDep) -> dict[str, Any]:
    """List the merges of a site, newest first: the active ones, or those that were undone."""
    action = AuditedAction(_READ, "read", "merges", lambda: [body.site], is_reading=True)
    found = merges.undone_merges_of if body.undone else merges.merges_of
    database = call.context.database
    rows = await run_audited(
        call, action, lambda: found(database, body.site, body.number, body.limit)
    )
    return {"rows": rows}


@router.post("/show")
async def show(body: MergeBody, call: CallDep) -> dict[str, Any]:
    """
    Return what a merge moved, whether each order returns if it is undone, and what was sent.

    If the merge of the number was undone, what returned.
    """
    context = call.context
    database, client = context.database, context.engine.client
    action = AuditedAction(_READ, "read merge", _subject(body), lambda: [body.site])

    async def work() -> dict[str, Any]:
        receivers = await CONSOLE_THREADS.run(receivers_of, context.settings, database)
        found = merges.describe(database, client, receivers, body.number, body.site)
        return asdict(await _existing(found))

    return await await_audited(call, action, work)


@router.post("/undo")
async def undo(body: UndoneMergeBody, call: CallDep) -> dict[str, Any]:
    """
    Undo the merge of a number.

    Returns how many orders returned (`moved`), and how many stay (`orders`); both are exceptions.
    """
    database, client = call.context.database, call.context.engine.client

    def chosen(found: MergePointer) -> UndoChoice:
        return merges.choice_of(database, found, body.keep, include_signed=body.include_signed)

    async def work() -> tuple[int, int]:
        found = await _existing(
            CONSOLE_THREADS.run(merges.find_to_undo, database, body.number, body.site)
        )
        try:
            steps = await CONSOLE_THREADS.run(merges.step_writer, call.context.settings, database)
            choice = await CONSOLE_THREADS.run(chosen, found)
            return await merges.undo_pointer(database, client, found, steps, choice)
        except (merges.MergeBusy, merges.NoSuchMergedOrder) as refusal:
            raise InvalidState(str(refusal)) from None

    moved, kept = await await_audited(call, _changing(call, body, "undo merge"), work)
    return {"orders": kept, "moved": moved}


@router.post("/correct")
async def correct(body: CorrectedMergeBody, call: CallDep) -> dict[str, Any]:
    """
    Queue corrections of the results that went out under the survivor of an undone merge.

    Each is withdrawn under the survivor's number and sent under the patient's own. The destinations
    in `result_only` cannot withdraw a result, those in `nothing` get no message.
    """
    database, settings = call.context.database, call.context.settings

    def work() -> Corrections:
        try:
            change = merges.find_undone(database, body.number, body.site)
        except merges.NoSuchMerge:
            raise NoSuchItem from None
        return merges.queue_corrections(database, receivers_of(settings, database), change)

    return asdict(await run_audited(call, _changing(call, body, "correct results"), work))


def _subject(body: MergeBody) -> str:
    return f"merge {merges.reference_of(body.site, body.number)}"


def _changing(
    call: ConsoleCall, body: UndoneMergeBody | CorrectedMergeBody, action: str
) -> AuditedAction:
    return AuditedAction(_CHANGE, action, _subject(body), lambda: [body.site], reason=body.reason)


async def _existing(found: Awaitable[T]) -> T:
    try:
        return await found
    except merges.NoSuchMerge:
        raise NoSuchItem from None
