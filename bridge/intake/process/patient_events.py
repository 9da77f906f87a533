"""Patient events of a message as calls to the report engine: updates, merges, moves of visits.

If the patient is unknown or the engine does not support these calls, the result is a note, because
there is nothing to correct.

No text is lost: a report that was begun stays with its patient, and the message becomes an
exception.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bridge.contract import OrderKey
from bridge.contract.requests import ReturnedOrder
from bridge.engine_client.client import EngineClient
from bridge.engine_client.errors import EngineFailure
from bridge.errors import FailureKind
from bridge.intake.process.job_context import (
    IDENTIFIER_MOVED,
    ORDER_MOVED,
    JobContext,
    Merge,
)
from bridge.intake.process.worklist import (
    NOT_FOUND,
    NOTHING_TO_WITHDRAW,
    Launching,
    OpenOrders,
    link_to_group,
    mark_reported,
    registration,
    withdraw,
)
from bridge.orders.addressing import IdentifierTakenError, OrderOfOtherPatientError
from bridge.orders.duplicates import (
    duplicate_orders,
    index_after_merge,
    match_early_rows,
)
from bridge.orders.order import Order, OrderState, Patient
from bridge.orders.patients import (
    DEMOGRAPHICS,
    DemographicsUpdate,
    MergePointer,
    corrections,
    demographics_of,
    former_identity,
    takes_identifier_of_other,
    updates_of,
    with_new_patient,
)
from bridge.orders.plans import SUPERSEDED
from bridge.orders.times import is_earlier
from bridge.orders.undone_merges import (
    ReturningOrder,
    UndoneMerge,
    frees_other_number,
    is_undone_by_later,
    merge_to_undo,
    separations_of,
)
from bridge.orders.values import as_moved_away, as_moved_by_merge
from bridge.orders.visits import (
    VisitChange,
    later_moves,
    moves_of,
    overtaken_by_orders,
    visit_changes,
)
from bridge.store.records.exceptions import MERGE_UNDONE
from bridge.store.records.identifier_changes import UNDO_OF_MESSAGE, UndoChoice
from mappings.inbound.events import OrderAction, OrderEvent
from mappings.inbound.procedures import replace_identifiers

PATIENTS_NOT_SUPPORTED = "patients_not_supported"
"""The note if the engine cannot correct or merge patients."""


async def send_patient_change(
    client: EngineClient, event: OrderEvent, updates: Mapping[str, str]
) -> str:
    """
    Make the calls of a patient event; return a note. Raises EngineFailure.

    After a merge the survivor gets the demographics of the message.
    """
    note = "patient_updated"
    try:
        if event.action is OrderAction.PATIENT_MERGE:
            survivor = event.merged_into or event.mrn
            await client.merge_patients(event.site, survivor, event.prior_mrn)
            note = "patient_merged"
        if updates:
            await client.update_patient(event.site, event.mrn, updates)
    except EngineFailure as failure:
        if failure.is_unsupported:
            return PATIENTS_NOT_SUPPORTED
        if failure.status != NOT_FOUND:
            raise
        return note if note == "patient_merged" else "patient_unknown"
    return note


def renamed_patients(event: OrderEvent, updates: Mapping[str, str]) -> list[Patient]:
    if event.action is not OrderAction.PATIENT_MERGE and "PatientName" not in updates:
        return []
    return [(event.site, mrn) for mrn in (event.mrn, event.prior_mrn) if mrn]


async def launch_visit_change(launcher: Launching, change: VisitChange) -> str:
    """
    Register the changed order; return its report id. Raises EngineFailure.

    If the engine refuses a move, the order is registered for its former patient again.
    """
    try:
        report = await launcher.launch(registration(change.after.key, change.updates))
    except EngineFailure as failure:
        if change.moves and failure.failure is FailureKind.PERMANENT:
            await launcher.launch(registration(change.before.key, change.before.tags))
        raise
    return report.report_id or ""


@dataclass(frozen=True, slots=True)
class WorklistClient:
    """Engine client and launcher of one message."""

    client: EngineClient
    launcher: Launching


async def record_merge(worklist: WorklistClient, context: JobContext, event: OrderEvent) -> None:
    identity = {tag: value for tag, value in demographics_of(event).items() if value}
    survivor = event.merged_into or event.mrn
    named = demographics_of(replace(event, clinical_info=event.merged_into_info))
    if named:  # it is known by them again if its merge is undone
        context.demographics.append(_completed(context, (event.site, survivor), named))
    sent_at = context.job.source.sent_at
    context.merges.append(Merge(event.site, event.prior_mrn, survivor, identity, sent_at))
    context.demographics += former_identity(
        event, context.sent, context.job.demographics, context.index.values()
    )
    for order in duplicate_orders(event, context.index.values()):
        after = as_moved_by_merge(order.after, event.prior_mrn)
        await _put_on_worklist(worklist, context, (order.own, order.prior), after)


async def apply_early_rows(
    worklist: WorklistClient, context: JobContext, event: OrderEvent
) -> None:
    for row in match_early_rows(event.site, event.mrn, list(context.index.values())):
        await withdraw_combined(worklist, context, row.early)
        await _put_on_worklist(worklist, context, (row.own,), row.after)


async def withdraw_combined(
    worklist: WorklistClient, context: JobContext, orders: Iterable[Order]
) -> None:
    """Withdraw orders that were combined with another one; a report that was begun stays."""
    for order in orders:
        notes = await withdraw(worklist.client, order.key)
        context.notes += [note for note in notes if note != NOTHING_TO_WITHDRAW]
        if "report_kept" in notes:
            context.put(replace(order, number_only=False))
        else:
            context.remove(order.key)


async def _put_on_worklist(
    worklist: WorklistClient,
    context: JobContext,
    before: tuple[Order, ...],
    after: Order,
) -> None:
    listed = any(order.state == OrderState.ORDERED for order in before)
    differs = not listed or any(order.tags != after.tags for order in before)
    if after.state == OrderState.REPORTED and listed:
        context.notes += await mark_reported(worklist.client, after.key, context.sent.at)
    elif not after.is_open and listed:
        context.notes += await withdraw(worklist.client, after.key)
    elif after.state == OrderState.ORDERED and differs:
        tags = {tag: value for tag, value in after.tags.items() if tag not in DEMOGRAPHICS}
        launched = await worklist.launcher.launch(registration(after.key, tags))
        after = replace(after, report_id=launched.report_id or after.report_id)
    context.put(after)


async def reassign_orders(worklist: WorklistClient, context: JobContext) -> None:
    """Move orders to the patient that a message names for them. Raises OrderOfOtherPatientError."""
    for before in context.job.conflicts:
        key = before.key
        event = next(candidate for candidate in context.job.events if names_order(candidate, key))
        info = {**with_new_patient(before.tags, demographics_of(event)), "PatientMRN": event.mrn}
        echo = replace_identifiers(before.echo, event.echo)
        key = replace(key, mrn=event.mrn)
        after = replace(before, key=key, tags=info, echo=echo, merged_from=frozenset())
        await apply_visit_change(worklist, context, VisitChange(before, after, dict(info)))
        if after.key not in context.index:  # its report was begun
            raise OrderOfOtherPatientError
        context.notes.append(ORDER_MOVED)


def names_order(event: OrderEvent, key: OrderKey) -> bool:
    return (event.site, event.accession) == (key.site, key.accession)


async def apply_visit_change(
    worklist: WorklistClient, context: JobContext, change: VisitChange
) -> None:
    """Change the visit of an order in the engine; a begun report stays with its patient."""
    before, after = change.before, change.after
    if change.moves:
        notes = await withdraw(worklist.client, before.key)
        context.notes += notes
        if "report_kept" in notes:
            return
        context.put(as_moved_away(before))
    report_id = after.report_id if change.moves else before.report_id
    if after.state in {OrderState.ORDERED, OrderState.REPORTED}:
        report_id = await launch_visit_change(worklist.launcher, change) or report_id
    elif change.moves and after.report_id:
        context.notes += await withdraw(worklist.client, after.key)
    if change.moves and after.state == OrderState.REPORTED:
        context.notes += await mark_reported(worklist.client, after.key, context.sent.at)
    context.put(replace(after, report_id=report_id))
    context.notes.append("visit_moved" if change.moves else "visit_changed")


async def apply_patient_events(worklist: WorklistClient, context: JobContext) -> None:
    """Apply the patient events of a message, in their order."""
    for given in context.job.events:
        event = _without_undone_merge(context, given)
        if event.action in {OrderAction.PATIENT_UPDATE, OrderAction.PATIENT_MERGE}:
            await _apply_patient_event(worklist, context, event)
        if event.action is OrderAction.PATIENT_UNMERGE:
            await _undo_merge(worklist, context, event)
        for change in _current_visit_changes(context, event):
            await apply_visit_change(worklist, context, change)
        context.moves += moves_of(event, context.sent)
        if event.action is OrderAction.VISIT_MOVE:
            context.renamed_patients.append((event.site, event.mrn))
            await apply_early_rows(worklist, context, event)


def _without_undone_merge(context: JobContext, event: OrderEvent) -> OrderEvent:
    """Return an update of the survivor if a merge was undone by a message that overtook it."""
    sent_at = context.job.source.sent_at
    is_merge = event.action is OrderAction.PATIENT_MERGE
    if not is_merge or not is_undone_by_later(event, sent_at, context.job.separations):
        return event
    _note_once(context, SUPERSEDED)
    return replace(event, action=OrderAction.PATIENT_UPDATE, prior_mrn="", renumbers=False)


async def _undo_merge(worklist: WorklistClient, context: JobContext, event: OrderEvent) -> None:
    freed = merge_to_undo(event, context.job.pointers)
    sent_at = context.job.source.sent_at
    if freed is not None and is_earlier(sent_at, freed.sent):  # they were merged again
        _note_once(context, SUPERSEDED)
        return
    context.separations += separations_of(event, sent_at, freed)
    if freed is None and (event.is_further or frees_other_number(event, context.job.pointers)):
        context.notes.append("no_merge_to_undo")
        return
    if freed is None:
        named = {(event.site, event.mrn), (event.site, event.prior_mrn)}
        has_orders = any(order.patient in named for order in context.index.values())
        is_affected = bool(context.job.pointers) or (has_orders and not event.is_mutual)
        context.notes.append(IDENTIFIER_MOVED if is_affected else "no_merge_to_undo")
        context.renamed_patients += sorted(named)  # a parked merge of the two has no effect now
        return
    if any(
        (undone.site, undone.prior_mrn) == (freed.site, freed.prior_mrn)
        for undone in context.undone_merges
    ):
        return
    returning = context.job.returning[freed.site, freed.prior_mrn]
    context.undone_merges.append(await undo_in_engine(worklist.client, freed, returning))
    context.renamed_patients += [(freed.site, freed.prior_mrn), (freed.site, freed.mrn)]
    given = demographics_of(event)
    if freed.prior_mrn == event.mrn and given:
        context.demographics.append(_completed(context, (freed.site, freed.prior_mrn), given))
    context.notes.append(MERGE_UNDONE)


def _completed(
    context: JobContext, patient: Patient, given: Mapping[str, str]
) -> DemographicsUpdate:
    """Return the demographics in a message, completed by those that are known of the patient."""
    known = context.job.demographics.get(patient)
    at, clock = context.sent
    tags = {**(known.tags if known is not None else {}), **given}
    return DemographicsUpdate(*patient, at, tags, clock)


async def undo_in_engine(
    client: EngineClient,
    pointer: MergePointer,
    returning: Sequence[ReturningOrder],
    choice: UndoChoice = UNDO_OF_MESSAGE,
) -> UndoneMerge:
    """Undo a merge in the report engine, and give orders back. Raises EngineFailure."""
    orders = [
        _returned(order) for order in returning if order.after.key.accession not in choice.keep
    ]
    done = await client.undo_merge(
        pointer.site,
        pointer.mrn,
        pointer.prior_mrn,
        orders,
        include_signed=choice.include_signed,
    )
    return UndoneMerge(
        pointer.site,
        pointer.prior_mrn,
        {order.accession: order.report_id for order in done.moved},
        {order.accession for order in done.kept},
        choice.keep,
    )


def _returned(order: ReturningOrder) -> ReturnedOrder:
    demographics: dict[str, Any] = {
        tag: str(order.after.tags.get(tag) or "") for tag in DEMOGRAPHICS
    }
    return ReturnedOrder.model_construct(Accession=order.after.key.accession, **demographics)


def _current_visit_changes(context: JobContext, event: OrderEvent) -> list[VisitChange]:
    """Return the visit changes of an event; none if a later update of the patient was applied."""
    sent_at = context.job.source.sent_at
    changes = visit_changes(event, context.index.values(), sent_at)
    is_update = event.action is OrderAction.PATIENT_UPDATE
    if is_update and len(changes) < len(visit_changes(event, context.index.values())):
        _note_once(context, SUPERSEDED)
    if not (changes and is_update and _is_stale(context, event)):
        return changes
    _note_once(context, SUPERSEDED)
    return []


def _note_once(context: JobContext, note: str) -> None:
    if note not in context.notes:
        context.notes.append(note)


def _is_stale(context: JobContext, event: OrderEvent) -> bool:
    """True if a patient event that was sent later was applied before."""
    known = context.job.demographics.get((event.site, event.mrn))
    return known is not None and is_earlier(context.job.source.sent_at, known.sent)


async def _follow_later_moves(
    worklist: WorklistClient, context: JobContext, event: OrderEvent
) -> None:
    for move in later_moves(
        event, context.job.source.sent_at, context.job.moves, context.index.values()
    ):
        for change in visit_changes(move, context.index.values()):
            await apply_visit_change(worklist, context, change)
        await apply_early_rows(worklist, context, move)


async def _apply_patient_event(
    worklist: WorklistClient, context: JobContext, event: OrderEvent
) -> None:
    known, stale = context.job.demographics.get((event.site, event.mrn)), _is_stale(context, event)
    updates = updates_of(event, known, stale=stale)
    if stale and known is not None and not demographics_of(event).items() <= known.tags.items():
        context.notes.append(SUPERSEDED)
    newer = (
        overtaken_by_orders(event, context.job.source.sent_at, context.index.values())
        if event.action is OrderAction.PATIENT_UPDATE
        else {}
    )
    newer = {tag: value for tag, value in newer.items() if tag in updates}
    if any(updates[tag] != value for tag, value in newer.items()):
        _note_once(context, SUPERSEDED)
    updates = {tag: value for tag, value in updates.items() if tag not in newer}
    if takes_identifier_of_other(event, context.job.demographics, context.index.values()):
        raise IdentifierTakenError
    note = await send_patient_change(worklist.client, event, updates)
    context.notes.append(note)
    if note == PATIENTS_NOT_SUPPORTED:
        return
    context.renamed_patients += renamed_patients(event, updates)
    if event.action is OrderAction.PATIENT_MERGE:
        await record_merge(worklist, context, event)
    for correction in corrections(event, updates, context.index.values()):
        context.changed[correction.key] = context.index[correction.key] = correction
    if updates and not stale:
        given = {**updates, **newer}
        context.demographics.append(_completed(context, (event.site, event.mrn), given))
    if event.action is OrderAction.PATIENT_MERGE:
        context.index, linkable = index_after_merge(event, context.index)
        context.move_to_survivor(event)
        await apply_early_rows(worklist, context, event)
        await _follow_later_moves(worklist, context, event)
        open_orders = OpenOrders(context.index.values())
        for order in linkable:
            context.notes += await link_to_group(
                worklist.client, order, open_orders, context.report_ids
            )
