"""The order processor: applies stored messages at the report service; the `apply` of the worker.

Reads, plans, calls, remembers. Each message has its own outcome: what one of them does to
the service, to a mapping or to the index never touches the others of its batch.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import groupby
from typing import Final, Protocol

import structlog

from bridge.contract import ReportStatus
from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.models import LaunchResult
from bridge.errors import FailureKind
from bridge.executors import Threads
from bridge.intake.patients.demographics import corrections, said_in, told_of
from bridge.intake.patients.duplicate_orders import united
from bridge.intake.patients.merges import (
    UNSUPPORTED,
    Desk,
    PatientService,
    absorb,
    reassign,
    renamed,
    reunite,
    revisit,
    settle_patient,
    tie,
)
from bridge.intake.patients.names import known_spellings, takes_anothers
from bridge.intake.patients.turns import Turns
from bridge.intake.patients.visit_transfers import OTHER_PATIENT, MovedVisit, moved_by, moved_since
from bridge.intake.patients.visits import revisits
from bridge.intake.process.addressing import (
    PATIENT_CONFLICT,
    MergedPatient,
    OrderOfAnother,
    TakenNumber,
)
from bridge.intake.process.job_context import Run
from bridge.intake.process.jobs import ContentGone, ContentUnreadable, Job
from bridge.intake.process.launches import Launcher, LaunchService, launch_of
from bridge.intake.process.order_hierarchy import PARENT_REPLACED
from bridge.intake.process.order_repository import OTHER_NAME, Change, Memory, Prepared
from bridge.intake.process.order_rules import OrderState, Step
from bridge.intake.process.outcomes import Waiting, failed, unremembered
from bridge.intake.process.planning import (
    SUPERSEDED,
    Task,
    is_over,
    leaves_orphans,
    overtook,
    plan,
    without_effect,
)
from bridge.intake.process.worklist_changes import (
    ReportService,
    close,
    detach,
    join,
    leave,
    link_groups,
    linked_from_the_start,
    order_key,
)
from bridge.intake.receive.listener import Listening
from bridge.metrics import Metrics
from bridge.queue.claims import ClaimedMessage, MessageOutcome, OutcomeRecords
from bridge.queue.states import QueueEvent
from bridge.redaction import describe, stack_frames
from bridge.store.records.message_time import is_earlier
from bridge.store.records.patient_demographics import DemographicsUpdate
from mappings.inbound.events import OrderAction, OrderEvent
from mappings.inbound.order_mapping import LEFT_OUT, PatientNames

_CODES: Final[Mapping[type[Exception], str]] = {
    ContentGone: "content_missing",
    MergedPatient: "patient_merged",
    MovedVisit: OTHER_PATIENT,
    TakenNumber: OTHER_NAME,
    OrderOfAnother: PATIENT_CONFLICT,
}


def given_up(claimed: ClaimedMessage, error: Exception) -> MessageOutcome:
    """Give the outcome of an attempt that ended so."""
    if isinstance(error, ContentUnreadable):  # the message is not lost: it is tried again
        return MessageOutcome(
            claimed.message_id, QueueEvent.POSTPONED, code="content_unreadable", detail=error.code
        )
    code = _CODES.get(type(error), "not_readable")
    return MessageOutcome(
        claimed.message_id, QueueEvent.GIVEN_UP, FailureKind.PERMANENT, code, describe(error)
    )


NOT_IMAGING = "not_imaging"
"""The code of a message that orders nothing for this worklist: it is accepted and ignored."""

Applied = tuple[Run, MessageOutcome]
FINAL_STATUSES = frozenset({"Final", "Addendum"})


class Service(LaunchService, ReportService, PatientService, Protocol):
    """Everything the forwarder needs of the engine's client."""


class Forwarder:
    """Applies batches of messages; one a process is enough."""

    def __init__(
        self,
        service: Service,
        memory: Memory,
        listeners: Mapping[str, Listening],
        waiting: Waiting,
        metrics: Metrics,
    ) -> None:
        """Join the report service with the order index and the listeners' definitions."""
        self._log = structlog.get_logger("forwarder")
        self._service = service
        self._memory = memory
        self._listeners = dict(listeners)
        self._waiting = waiting
        self._metrics = metrics
        self._launcher = Launcher(service)
        self._desk = Desk(service, self._launcher)
        self._turns = Turns()

    def adopt(self, listeners: Mapping[str, Listening]) -> None:
        """Go on with other definitions (a mapping was activated)."""
        self._listeners = dict(listeners)

    async def apply(
        self, claimed: Sequence[ClaimedMessage]
    ) -> AsyncGenerator[Sequence[MessageOutcome]]:
        """Apply messages of different lanes; one outcome each, written down before it goes on."""
        begun = self._turns.begin()
        now: list[Job] = []
        prepared: Prepared | None = None
        try:
            prepared = self._memory.prepare_readily(claimed, self._listeners)
            if prepared is None:
                prepared = await Threads.INTAKE.run(self._memory.prepare, claimed, self._listeners)
            now, later = self._turns.take(prepared.jobs, begun)
            outcomes = await self._apply_all(now, prepared)
            yield outcomes
        finally:
            self._turns.end(now, begun)
            if prepared is not None:
                self._memory.release(prepared)
        for outcome in outcomes:
            self._metrics.applied.labels(outcome.event.value, outcome.code).inc()
        self._waiting.tell(outcomes)
        if later:  # read anew: what they are about has changed
            await self._turns.wait(later)
            async with aclosing(self.apply([job.claimed for job in later])) as given:
                async for each in given:
                    yield each

    async def _apply_all(self, jobs: Sequence[Job], prepared: Prepared) -> list[MessageOutcome]:
        for each, error in prepared.failures:
            self._alarm(each, error)
        now = self._memory.now()
        refused = [
            _with_exception(given_up(each, error), each, now) for each, error in prepared.failures
        ]
        outcomes = [*prepared.moved, *refused]
        runs = Run.all(jobs, prepared.index)
        applied = await asyncio.gather(*(self._apply_one(run) for run in runs))
        now = self._memory.now()
        return outcomes + [
            _with_news(outcome, run, now)
            if outcome.event is QueueEvent.ACCEPTED
            else _with_exception(outcome, run.job.claimed, now)
            for run, outcome in applied
        ]

    async def _apply_one(self, run: Run) -> Applied:
        try:
            await self._follow(run)
        except Exception as error:  # noqa: BLE001  # a person must see it; the others go on
            return run, self._failed(run.job.claimed, error)
        return run, _done(run)

    def _failed(self, claimed: ClaimedMessage, error: Exception) -> MessageOutcome:
        if isinstance(error, EngineFailure):
            self._metrics.engine_failures.labels(error.failure.value, error.code).inc()
            return failed(claimed, error, self._memory.now())
        self._alarm(claimed, error)
        return given_up(claimed, error)

    async def _follow(self, run: Run) -> None:
        """Do what a message asks for, patients first: they are whom the orders are for."""
        await self._patients(run)
        await reassign(self._desk, run)
        tasks = plan(run.job.events, run.index, run.job.occasion, heard=run.job.heard)
        for task in tasks:
            await absorb(self._desk, run, task.absorbed)
        _note_exceptions(run, tasks)
        run.together = link_groups(tasks, run.job.claimed.message_id)
        for registers, together in groupby(tasks, lambda task: task.step is Step.REGISTER):
            if registers:
                await self._register_all(run, list(together))
                continue
            for task in together:
                await self._step(run, task)
        run.notes += linked_from_the_start(run.together, run.groups)
        regrouped = [task for task in tasks if task.regroups]
        for task in regrouped:
            run.notes += await leave(self._service, task, run.index, run.groups)
        for task in regrouped:
            run.notes += await join(self._service, task.after, run.index, run.groups, run.fresh)

    async def _patients(self, run: Run) -> None:
        for event in run.job.events:
            if event.action in {OrderAction.PATIENT_UPDATE, OrderAction.PATIENT_MERGE}:
                await self._patient(run, event)
            for each in revisits(event, run.index.values()):
                await revisit(self._desk, run, each)
            run.moves += moved_by(event, run.sent)
            if event.action is OrderAction.VISIT_MOVE:
                run.renamed.append((event.site, event.mrn))
                await tie(self._desk, run, event)

    async def _moved_on(self, run: Run, event: OrderEvent) -> None:
        """Let orders follow their visits that moved on after a merge, and before it came."""
        for each in moved_since(event, run.job, run.index.values()):
            for one in revisits(each, run.index.values()):
                await revisit(self._desk, run, one)
            await tie(self._desk, run, each)

    async def _patient(self, run: Run, event: OrderEvent) -> None:
        sent_at, known = run.job.occasion.sent_at, run.job.words.get((event.site, event.mrn))
        stale = known is not None and is_earlier(sent_at, known.sent)
        told = told_of(event, known, stale=stale)
        if stale and known is not None and not said_in(event).items() <= known.tags.items():
            run.notes.append(SUPERSEDED)
        if takes_anothers(event, run.job.words, run.index.values()):
            raise TakenNumber
        note = await settle_patient(self._service, event, told)
        run.notes.append(note)
        if note == UNSUPPORTED:
            return
        run.renamed += renamed(event, told)
        if event.action is OrderAction.PATIENT_MERGE:
            await reunite(self._desk, run, event)
        for each in corrections(event, told, run.index.values()):
            run.changed[each.key] = run.index[each.key] = each
        if told and not stale:
            said = {**known.tags, **told} if known is not None else told
            at, clock = run.sent
            run.words.append(DemographicsUpdate(event.site, event.mrn, at, said, clock))
        if event.action is OrderAction.PATIENT_MERGE:
            run.index, akin = united(event, run.index)
            run.rename(event)
            await tie(self._desk, run, event)
            await self._moved_on(run, event)
            for each in akin:
                run.notes += await join(self._service, each, run.index, run.groups)

    async def _step(self, run: Run, task: Task) -> None:
        """Do what is no registration."""
        key = order_key(task.after.key)
        match task.step:
            case Step.WITHDRAW:
                over = is_over(task, run.job.events)
                run.notes += await close(self._service, self._launcher, task, over=over)
                run.notes += ["examined_after_cancel"] if overtook(task, run.job.occasion) else []
                run.changed[task.after.key] = replace(task.after, report_id="")
            case Step.REMEMBER:
                run.changed[task.after.key] = task.after
            case Step.DETACH:
                record, note = await detach(self._service, key)
                run.notes += [note] if note else []
                if record is not None:
                    run.groups[task.after.key] = record.report_id
            case _:
                run.notes.append(f"stays_{task.after.state}")
                if task.event.examined and task.after.state == OrderState.CANCELLED:
                    run.notes.append("examined_after_cancel")
                heard = task.before is not None or task.after.state == OrderState.CANCELLED
                if heard and task.after != run.index.get(task.after.key):
                    run.changed[task.after.key] = task.after
        run.index[task.after.key] = task.after

    async def _register_all(self, run: Run, tasks: Sequence[Task]) -> None:
        """Register neighbours in one call; one alone needs no task of its own."""
        if len(tasks) == 1:
            await self._register(run, tasks[0])
        else:
            await asyncio.gather(*(self._register(run, task) for task in tasks))

    async def _register(self, run: Run, task: Task) -> None:
        try:
            launch = launch_of(task, run.together.get(task.after.key, ""))
            _registered(run, task, await self._launcher.launch(launch))
        except EngineFailure as failure:
            if not is_other_name(failure) or run.job.patient_names is PatientNames.EXACT:
                raise
            await self._register_by_name(run, task, failure)

    async def _register_by_name(self, run: Run, task: Task, failure: EngineFailure) -> None:
        """Register an order under the known spelling of its patient's name, or rename her."""
        if run.job.patient_names is PatientNames.UPDATE:
            launch = replace(launch_of(task), force_update_patient_name=True)
            _registered(run, task, await self._launcher.launch(launch))
            run.renamed.append(task.after.key[:2])
            return
        known = await Threads.INTAKE.run(self._memory.tags_of, task.after.key)
        for name in known_spellings(task.after.tags, known):
            named = replace(
                task, after=replace(task.after, tags={**task.after.tags, "PatientName": name})
            )
            try:
                launched = await self._launcher.launch(launch_of(named))
            except EngineFailure as other:
                if not is_other_name(other):
                    raise
                continue
            _registered(run, named, launched)
            return
        raise failure

    def _alarm(self, claimed: ClaimedMessage, error: Exception) -> None:
        self._log.error(
            "not applied",
            message_id=claimed.message_id,
            listener=claimed.listener,
            error=describe(error),
            trace=stack_frames(error),
        )


def is_other_name(answer: object) -> bool:
    """Tell whether a launch failed because the service knows the patient by another name."""
    return isinstance(answer, EngineFailure) and answer.code == OTHER_NAME


def _note_exceptions(run: Run, tasks: Sequence[Task]) -> None:
    """Note why a message needs attention, before anything is registered."""
    run.notes += [run.job.doubt] if run.job.doubt else []
    codes = (without_effect(task, run.job.occasion) for task in tasks)
    run.notes += [code for code in codes if code]
    run.notes += [PARENT_REPLACED] if leaves_orphans(tasks, run.index) else []


def _registered(run: Run, task: Task, launched: LaunchResult) -> None:
    """Note what a launch has answered."""
    if launched.report_status in FINAL_STATUSES or launched.status in FINAL_STATUSES:
        run.notes.append("already_signed")
    if launched.report_status == ReportStatus.ORDERED:
        run.fresh.add(task.after.key)
    if launched.report_id and task.after.key in run.together:
        run.groups[task.after.key] = launched.report_id
    run.put(replace(task.after, report_id=launched.report_id or task.after.report_id))


def _done(run: Run) -> MessageOutcome:
    idle = all(event.action is OrderAction.IGNORE for event in run.job.events)
    event = QueueEvent.IGNORED if idle else QueueEvent.ACCEPTED
    left_out = idle and any(each.note in LEFT_OUT for each in run.job.events)
    code = run.concern or (NOT_IMAGING if left_out else "")
    return MessageOutcome(run.job.claimed.message_id, event, code=code, notes=run.notes or None)


def _with_news(outcome: MessageOutcome, run: Run, now: int) -> MessageOutcome:
    change = run.change()
    unknown = unremembered(run.job.claimed, now)
    return replace(outcome, records=OutcomeRecords(change, unknown, is_short=change.is_brief))


def _with_exception(outcome: MessageOutcome, claimed: ClaimedMessage, now: int) -> MessageOutcome:
    """List a message that is parked for a conflict of patients under exceptions, too."""
    if outcome.code != PATIENT_CONFLICT:
        return outcome
    change = Change(claimed.message_id, (), concern=outcome.code)
    return replace(
        outcome, records=OutcomeRecords(change, unremembered(claimed, now), is_short=True)
    )
