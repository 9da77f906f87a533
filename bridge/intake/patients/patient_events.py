"""Patient events of a message: demographic updates, merges, and moves of visits."""

from bridge.intake.patients.demographics import corrections, demographics_of, updates_of
from bridge.intake.patients.duplicate_orders import index_after_merge
from bridge.intake.patients.merges import (
    PATIENTS_NOT_SUPPORTED,
    WorklistClient,
    apply_early_rows,
    apply_visit_change,
    record_merge,
    renamed_patients,
    send_patient_change,
)
from bridge.intake.patients.names import takes_identifier_of_other
from bridge.intake.patients.visit_transfers import later_moves, moves_of
from bridge.intake.patients.visits import visit_changes
from bridge.intake.process.addressing import IdentifierTakenError
from bridge.intake.process.job_context import JobContext
from bridge.intake.process.planning import SUPERSEDED
from bridge.intake.process.worklist_changes import link_to_group
from bridge.store.records.message_time import is_earlier
from bridge.store.records.patient_demographics import DemographicsUpdate
from mappings.inbound.events import OrderAction, OrderEvent


async def apply_patient_events(worklist: WorklistClient, context: JobContext) -> None:
    """Apply the patient events of a message, in their order."""
    for event in context.job.events:
        if event.action in {OrderAction.PATIENT_UPDATE, OrderAction.PATIENT_MERGE}:
            await _apply_patient_event(worklist, context, event)
        for each in visit_changes(event, context.index.values()):
            await apply_visit_change(worklist, context, each)
        context.moves += moves_of(event, context.sent)
        if event.action is OrderAction.VISIT_MOVE:
            context.renamed_patients.append((event.site, event.mrn))
            await apply_early_rows(worklist, context, event)


async def _follow_later_moves(
    worklist: WorklistClient, context: JobContext, event: OrderEvent
) -> None:
    """Move orders whose visits moved after a merge that arrives late."""
    for each in later_moves(event, context.job, context.index.values()):
        for one in visit_changes(each, context.index.values()):
            await apply_visit_change(worklist, context, one)
        await apply_early_rows(worklist, context, each)


async def _apply_patient_event(
    worklist: WorklistClient, context: JobContext, event: OrderEvent
) -> None:
    sent_at, known = (
        context.job.source.sent_at,
        context.job.demographics.get((event.site, event.mrn)),
    )
    stale = known is not None and is_earlier(sent_at, known.sent)
    updates = updates_of(event, known, stale=stale)
    if stale and known is not None and not demographics_of(event).items() <= known.tags.items():
        context.notes.append(SUPERSEDED)
    if takes_identifier_of_other(event, context.job.demographics, context.index.values()):
        raise IdentifierTakenError
    note = await send_patient_change(worklist.client, event, updates)
    context.notes.append(note)
    if note == PATIENTS_NOT_SUPPORTED:
        return
    context.renamed_patients += renamed_patients(event, updates)
    if event.action is OrderAction.PATIENT_MERGE:
        await record_merge(worklist, context, event)
    for each in corrections(event, updates, context.index.values()):
        context.changed[each.key] = context.index[each.key] = each
    if updates and not stale:
        said = {**known.tags, **updates} if known is not None else updates
        at, clock = context.sent
        context.demographics.append(DemographicsUpdate(event.site, event.mrn, at, said, clock))
    if event.action is OrderAction.PATIENT_MERGE:
        context.index, linkable = index_after_merge(event, context.index)
        context.move_to_survivor(event)
        await apply_early_rows(worklist, context, event)
        await _follow_later_moves(worklist, context, event)
        for each in linkable:
            context.notes += await link_to_group(
                worklist.client, each, context.index, context.groups
            )
