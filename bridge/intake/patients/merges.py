"""Demographic updates and merges as calls to the report service, and orders that turn out to be
one.

A patient whom the service does not know, and a service that lacks the call, are notes: there
is nothing to correct there.

No text is ever lost: a report that somebody has begun stays where it is, and people are told.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.models import PatientUpdate
from bridge.errors import FailureKind
from bridge.intake.patients.demographics import DEMOGRAPHICS, anothers, last_word, said_in
from bridge.intake.patients.duplicate_orders import is_open, reunited
from bridge.intake.patients.visits import Revisit
from bridge.intake.process.addressing import OrderOfAnother
from bridge.intake.process.early_events import ties
from bridge.intake.process.job_context import ORDER_MOVED, Run
from bridge.intake.process.launches import Launcher, registering
from bridge.intake.process.link_signals import as_moved_away, as_ordered
from bridge.intake.process.order_rules import OrderState
from bridge.intake.process.worklist_changes import (
    NOT_FOUND,
    NOTHING,
    ReportService,
    order_key,
    withdraw,
)
from bridge.store.records.merged_patients import Patient
from bridge.store.records.order_index import IndexedOrder, OrderIndexKey
from mappings.inbound.events import OrderAction, OrderEvent
from mappings.inbound.procedures import replace_identifiers

UNSUPPORTED = "patients_not_supported"
"""The note where a service cannot correct or merge patients: nothing has changed there."""


class PatientService(Protocol):
    """What is needed of the engine's client."""

    async def update_patient(self, update: PatientUpdate) -> None:
        """Correct demographics."""

    async def merge_patients(self, site: str, mrn: str, prior_mrn: str) -> None:
        """Give one patient's reports to another."""


async def settle_patient(
    service: PatientService, event: OrderEvent, told: Mapping[str, str]
) -> str:
    """
    Make the calls that a patient event asks for; give a note. Raises EngineFailure.

    Who survives a merge is told to be whom the message says, demographics and all.
    """
    note = "patient_updated"
    try:
        if event.action is OrderAction.PATIENT_MERGE:
            await service.merge_patients(event.site, event.mrn, event.prior_mrn)
            note = "patient_merged"
        if told:
            await service.update_patient(PatientUpdate(event.site, event.mrn, told))
    except EngineFailure as failure:
        if failure.is_unsupported:
            return UNSUPPORTED
        if failure.status != NOT_FOUND:
            raise
        return note if note == "patient_merged" else "patient_unknown"
    return note


def renamed(event: OrderEvent, told: Mapping[str, str]) -> list[Patient]:
    """Give who may be called otherwise since an event that tells this of a patient."""
    if event.action is not OrderAction.PATIENT_MERGE and "PatientName" not in told:
        return []
    return [(event.site, mrn) for mrn in (event.mrn, event.prior_mrn) if mrn]


async def given(launcher: Launcher, each: Revisit) -> str:
    """Give its report's id; where it is refused, it is whose it was again. Raises EngineFailure."""
    try:
        return (await launcher.launch(registering(each.after.key, each.told))).report_id
    except EngineFailure as failure:
        if each.moves and failure.failure is FailureKind.PERMANENT:
            await launcher.launch(registering(each.before.key, each.before.tags))
        raise


@dataclass(frozen=True, slots=True)
class Desk:
    """The report service, as orders are put there and taken off."""

    service: ReportService
    launcher: Launcher


async def reunite(desk: Desk, run: Run, event: OrderEvent) -> None:
    """Remember a merge; orders that both patients have are one."""
    run.merges.append((event.site, event.prior_mrn, event.mrn))
    run.words += last_word(event, run.sent, run.job.words, run.index.values())
    for each in reunited(event, run.index.values()):
        await _stand(desk, run, (each.own, each.prior), each.after)


async def tie(desk: Desk, run: Run, event: OrderEvent) -> None:
    """Make one of what a patient's orders are, and what was said of them by a number."""
    for each in ties(event.site, event.mrn, list(run.index.values())):
        await absorb(desk, run, each.said)
        await _stand(desk, run, (each.own,), each.after)


async def absorb(desk: Desk, run: Run, orders: Iterable[IndexedOrder]) -> None:
    """Take orders off that are one with another; what somebody has begun to read stays."""
    for each in orders:
        notes = await withdraw(desk.service, order_key(each.key))
        run.notes += [note for note in notes if note != NOTHING]
        if "report_kept" in notes:
            run.put(as_ordered(each))
        else:
            run.drop(each.key)


async def _stand(
    desk: Desk, run: Run, before: tuple[IndexedOrder, ...], after: IndexedOrder
) -> None:
    """Have an order stand, or not, as it does by all that was said; who she is, others say."""
    listed = any(each.state == OrderState.ORDERED for each in before)
    differs = not listed or any(each.tags != after.tags for each in before)
    if not is_open(after) and listed:
        run.notes += await withdraw(desk.service, order_key(after.key))
    elif after.state == OrderState.ORDERED and differs:
        tags = {tag: value for tag, value in after.tags.items() if tag not in DEMOGRAPHICS}
        launched = await desk.launcher.launch(registering(after.key, tags))
        after = replace(after, report_id=launched.report_id or after.report_id)
    run.put(after)


async def reassign(desk: Desk, run: Run) -> None:
    """Give orders to the patient whom a message names for them. Raises OrderOfAnother."""
    for before in run.job.conflicts:
        key = before.key
        event = next(each for each in run.job.events if is_named(each, key))
        info = {**anothers(before.tags, said_in(event)), "PatientMRN": event.mrn}
        echo = replace_identifiers(before.echo, event.echo)
        after = replace(before, key=key._replace(mrn=event.mrn), tags=info, echo=echo)
        await revisit(desk, run, Revisit(before, after, dict(info)))
        if after.key not in run.index:  # somebody has begun its report
            raise OrderOfAnother
        run.notes.append(ORDER_MOVED)


def is_named(event: OrderEvent, key: OrderIndexKey) -> bool:
    """Tell whether an event is about the order of a key, whichever patient it names."""
    return (event.site, event.accession) == (key.site, key.accession)


async def revisit(desk: Desk, run: Run, each: Revisit) -> None:
    """Tell the service what an order's visit is now; what is begun stays whose it is."""
    before, after = each.before, each.after
    if each.moves:
        notes = await withdraw(desk.service, order_key(before.key))
        run.notes += notes
        if "report_kept" in notes:
            return
        run.put(as_moved_away(before))
    report_id = after.report_id if each.moves else before.report_id
    if after.state == OrderState.ORDERED:
        report_id = await given(desk.launcher, each) or report_id
    elif each.moves and after.report_id:
        run.notes += await withdraw(desk.service, order_key(after.key))
    run.put(replace(after, report_id=report_id))
    run.notes.append("visit_moved" if each.moves else "visit_changed")
