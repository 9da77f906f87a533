"""The order processor: applies stored messages to the report engine.

It reads messages, plans the steps, calls the engine, and returns what to store. Each message has
its own outcome: an error in one message does not affect the others of its batch.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import groupby
from typing import Final

import structlog

from bridge.contract import SIGNED, ReportStatus
from bridge.contract.responses import LaunchResponse
from bridge.engine_client.client import EngineClient
from bridge.engine_client.errors import EngineFailure
from bridge.errors import FailureKind
from bridge.executors import Threads
from bridge.intake.process.engine_calls import EngineCalls
from bridge.intake.process.job_context import (
    JobContext,
    MessageChanges,
    failure_outcome,
    interrupted_outcome,
    unsaved_outcome,
)
from bridge.intake.process.jobs import (
    ContentDamagedError,
    ContentMissingError,
    ContentUnreadableError,
    MessageJob,
    ReceivedMatch,
)
from bridge.intake.process.order_repository import (
    PATIENT_NAME_MISMATCH,
    OrderRepository,
    PreparedBatch,
)
from bridge.intake.process.outside_reports import store_outside_reports
from bridge.intake.process.patient_events import (
    WorklistClient,
    apply_patient_events,
    reassign_orders,
    withdraw_combined,
)
from bridge.intake.process.received_objects import apply_received
from bridge.intake.process.worklist import (
    REPORTED_HERE,
    STAYS_UNREAD,
    Launcher,
    Launching,
    OpenOrders,
    close_order,
    detach,
    launch_of,
    link_group_names,
    link_to_group,
    linked_at_launch,
    mark_reported,
    return_to_unread,
    unlink_from_group,
)
from bridge.intake.receive.completion import CompletionWaiter
from bridge.intake.receive.listener_policy import ListenerPolicy
from bridge.metrics import Metrics
from bridge.orders.addressing import (
    MERGE_CONTRADICTED,
    NUMBER_REUSED,
    PATIENT_CONFLICT,
    SEVERAL_PATIENTS,
    IdentifierTakenError,
    MergeContradictedError,
    NumberReusedError,
    OrderOfOtherPatientError,
    OrderOfOtherPersonError,
    PatientMergedError,
    SeveralPatientsError,
)
from bridge.orders.hierarchy import FROM_PARENT, PARENT_REPLACED
from bridge.orders.order import Order, OrderState, Patient
from bridge.orders.patients import known_spellings
from bridge.orders.plans import (
    ORDER_UNKNOWN,
    SEVERAL_ACCESSIONS,
    OrderTask,
    gets_several_accessions,
    is_final_cancellation,
    leaves_children_of_replaced,
    no_effect_code,
    plan,
    was_reopened_later,
)
from bridge.orders.rules import OrderStep
from bridge.orders.values import as_moved_by_merge
from bridge.orders.visits import OTHER_PATIENT, VisitMovedError
from bridge.queue.claims import ClaimedMessage, MessageOutcome, OutcomeRecords
from bridge.queue.errors import LeaseEnded
from bridge.queue.notes import MessageNotes
from bridge.queue.states import QueueEvent
from bridge.redaction import describe, stack_frames
from mappings.hl7.header import peek
from mappings.inbound.events import OrderAction
from mappings.inbound.order_mapping import NOTES_OF_IGNORED_ORDERS, PatientNames
from mappings.language.diagnostics import HookNotCalled


def patients_of_job(job: MessageJob) -> frozenset[Patient]:
    """Return the patients of a job, survivors in place of merged identifiers."""
    return frozenset(
        (event.site, mrn) for event in job.events for mrn in (event.mrn, event.prior_mrn) if mrn
    )


def _subjects(job: MessageJob) -> frozenset[Patient]:
    """
    Return patients and accessions of a job.

    A message that names another patient for an order waits for the message with the order.
    """
    orders = {(event.site, f"order {event.accession}") for event in job.events if event.accession}
    return patients_of_job(job) | orders


class PatientLocks:
    """The locked patients, and those released while a batch is read."""

    def __init__(self) -> None:
        self._locked: set[Patient] = set()
        self._released: deque[tuple[int, frozenset[Patient]]] = deque()
        self._now = 0
        self._reads: Counter[int] = Counter()
        self._changed = asyncio.Event()

    def begin_read(self) -> int:
        """Record the start of reading a batch; return its logical time for `lock` and `release`."""
        self._reads[self._now] += 1
        return self._now

    def lock(
        self, jobs: Sequence[MessageJob], begun: int
    ) -> tuple[list[MessageJob], list[MessageJob]]:
        """
        Lock the patients of jobs that can be applied; the others must be read again.

        A job must wait, oldest first, if another job of its patients is in progress or has been
        applied since the read began.
        """
        stale = frozenset[Patient]().union(*(own for at, own in self._released if at > begun))
        busy = self._locked | stale
        ready: list[MessageJob] = []
        deferred: list[MessageJob] = []
        for job in sorted(jobs, key=lambda waiting: waiting.claimed.message_id):
            own = _subjects(job)
            (ready if busy.isdisjoint(own) else deferred).append(job)
            busy |= own
        self._locked |= _all_subjects(ready)
        return ready, deferred

    def release(self, jobs: Sequence[MessageJob], begun: int) -> None:
        own = _all_subjects(jobs)
        self._locked -= own
        self._now += 1
        self._released.append((self._now, own))
        self._reads[begun] -= 1
        if not self._reads[begun]:
            del self._reads[begun]
        oldest = min(self._reads, default=self._now)
        while self._released and self._released[0][0] <= oldest:
            self._released.popleft()
        self._changed.set()

    async def wait(self, jobs: Sequence[MessageJob]) -> None:
        own = _all_subjects(jobs)
        while not self._locked.isdisjoint(own):
            self._changed.clear()
            await self._changed.wait()


def _all_subjects(jobs: Iterable[MessageJob]) -> frozenset[Patient]:
    return frozenset[Patient]().union(*map(_subjects, jobs))


CONTENT_DAMAGED: Final = "content_damaged"
"""The code of a message whose stored content has changed."""

_CODES: Final[Mapping[type[Exception], str]] = {
    ContentMissingError: "content_missing",
    ContentDamagedError: CONTENT_DAMAGED,
    PatientMergedError: "patient_merged",
    VisitMovedError: OTHER_PATIENT,
    IdentifierTakenError: PATIENT_NAME_MISMATCH,
    OrderOfOtherPatientError: PATIENT_CONFLICT,
    OrderOfOtherPersonError: PATIENT_NAME_MISMATCH,
    MergeContradictedError: MERGE_CONTRADICTED,
    NumberReusedError: NUMBER_REUSED,
    SeveralPatientsError: SEVERAL_PATIENTS,
}


def outcome_of_error(claimed: ClaimedMessage, error: Exception) -> MessageOutcome:
    """Return the outcome of a message that failed with an unexpected error."""
    if isinstance(error, ContentUnreadableError):  # the message is stored: try again
        return MessageOutcome(
            claimed.message_id, QueueEvent.POSTPONED, code="content_unreadable", detail=error.code
        )
    if isinstance(error, HookNotCalled):  # other messages keep the processes busy
        return MessageOutcome(
            claimed.message_id, QueueEvent.POSTPONED, FailureKind.TRANSIENT, "hook_not_called"
        )
    code = _CODES.get(type(error), "not_readable")
    return MessageOutcome(
        claimed.message_id, QueueEvent.GIVEN_UP, FailureKind.PERMANENT, code, describe(error)
    )


NOT_IMAGING = "not_imaging"
"""The code of a message without imaging orders: it is accepted and ignored."""

Applied = tuple[JobContext, MessageOutcome]


class OrderProcessor:
    """Applies batches of messages. A process has one."""

    def __init__(
        self,
        client: EngineClient,
        repository: OrderRepository,
        listeners: Mapping[str, ListenerPolicy],
        waiting: CompletionWaiter,
        metrics: Metrics,
    ) -> None:
        """Apply with `listeners`, which may load definitions on demand, on the calling thread."""
        self._log = structlog.get_logger("order_processor")
        self._client = client
        self._repository = repository
        self._listeners = listeners
        self._waiting = waiting
        self._metrics = metrics
        self._launcher = Launcher(client)
        self._patient_locks = PatientLocks()

    def use(self, listeners: Mapping[str, ListenerPolicy]) -> None:
        """Use other definitions from now on, after an activation."""
        self._listeners = listeners

    async def apply(
        self, claimed: Sequence[ClaimedMessage]
    ) -> AsyncGenerator[Sequence[MessageOutcome]]:
        """
        Apply messages of different lanes. Yields their outcomes, which the caller stores before it
        continues the generator.
        """
        begun = self._patient_locks.begin_read()
        ready: list[MessageJob] = []
        prepared: PreparedBatch | None = None
        try:
            prepare = self._repository.prepare
            prepared = await Threads.MESSAGES.run(prepare, claimed, self._listeners)
            ready, deferred = self._patient_locks.lock(prepared.jobs, begun)
            outcomes = await self._apply_jobs(ready, prepared)
            yield outcomes
        finally:
            self._patient_locks.release(ready, begun)
            if prepared is not None:
                self._repository.release(prepared)
        self._count(claimed, outcomes)
        self._waiting.notify(outcomes)
        if deferred:  # read again: their orders have changed
            await self._patient_locks.wait(deferred)
            async with aclosing(self.apply([job.claimed for job in deferred])) as batches:
                async for batch in batches:
                    yield batch

    def _count(self, claimed: Sequence[ClaimedMessage], outcomes: Sequence[MessageOutcome]) -> None:
        listeners = {message.message_id: message.listener for message in claimed}
        for outcome in outcomes:
            labels = listeners[outcome.message_id], outcome.event.value, outcome.code
            self._metrics.applied.labels(*labels).inc()

    async def _apply_jobs(
        self, jobs: Sequence[MessageJob], prepared: PreparedBatch
    ) -> list[MessageOutcome]:
        for job, error in prepared.failures:
            self._log_error(job, error)
        now = self._repository.now()
        refused = [
            _with_exception(outcome_of_error(job, error), job, now)
            for job, error in prepared.failures
        ]
        outcomes = [*prepared.requeued, *refused]
        contexts = JobContext.for_batch(jobs, prepared.index)
        applied = await asyncio.gather(*(self._apply_one(context) for context in contexts))
        now = self._repository.now()
        return outcomes + [
            _with_changes(outcome, context, now)
            if outcome.event is QueueEvent.ACCEPTED or _is_unmatched(context, outcome)
            else _with_exception(outcome, context.job.claimed, now)
            for context, outcome in applied
        ]

    async def _apply_one(self, context: JobContext) -> Applied:
        """Apply one message and return its outcome."""
        calls = EngineCalls(self._launcher, context.job.events)
        worklist = WorklistClient(self._client.observed(calls.add), calls)
        try:
            await self._apply_events(worklist, context)
        except Exception as error:  # noqa: BLE001  # it becomes the outcome of this message
            failed = self._failure(context.job.claimed, error)
            outcome, notes = failed, _notes((), calls)
        else:
            outcome, notes = _outcome_of(context), _notes(context.notes, calls)
        return context, replace(outcome, notes=notes, sites=context.job.sites)

    def _failure(self, claimed: ClaimedMessage, error: Exception) -> MessageOutcome:
        if isinstance(error, EngineFailure):
            self._metrics.engine_failures.labels(error.failure.value, error.code).inc()
            return failure_outcome(claimed, error, self._repository.now())
        if isinstance(error, LeaseEnded):
            return interrupted_outcome(claimed)
        self._log_error(claimed, error)
        return outcome_of_error(claimed, error)

    def _plan(self, context: JobContext) -> list[OrderTask]:
        tasks = plan(
            context.job.events,
            context.index,
            context.job.source,
            has_early_rows=context.job.has_early_rows,
        )
        tasks = [_with_former_number(context, task) for task in tasks]
        steps = self._repository.steps
        return tasks if steps.rules is None else steps.with_study_uids(tasks)

    async def _apply_events(self, worklist: WorklistClient, context: JobContext) -> None:
        """
        Apply the events of a message: patient events first, because orders refer to their
        patients.
        """
        lease = context.job.claimed.lease
        lease.require()
        await apply_patient_events(worklist, context)
        await reassign_orders(worklist, context)
        await _store_documents(worklist.client, context)
        tasks = self._plan(context)
        context.discontinued += [
            task.after.key for task in tasks if task.event.action is OrderAction.DISCONTINUE
        ]
        for task in tasks:
            await withdraw_combined(worklist, context, task.combined_rows)
        _note_exceptions(context, tasks)
        context.link_groups = link_group_names(tasks, context.job.claimed.message_id)
        for registers, group in groupby(tasks, lambda task: task.step is OrderStep.REGISTER):
            lease.require()
            if registers:
                registered = list(group)
                await self._register_all(worklist.launcher, context, registered)
                for task in registered:
                    if task.returns_to_unread:
                        context.notes += await return_to_unread(worklist.client, task.after.key)
                continue
            for task in group:
                lease.require()
                await self._apply_step(worklist, context, task)
        context.notes += linked_at_launch(context.link_groups, context.report_ids)
        regrouped = [task for task in tasks if task.regroups]
        for task in regrouped:
            context.notes += await unlink_from_group(
                worklist.client, task, context.index, context.report_ids
            )
        open_orders = OpenOrders(context.index.values() if regrouped else ())
        for task in regrouped:
            context.notes += await link_to_group(
                worklist.client, task.after, open_orders, context.report_ids, context.new_orders
            )

    async def _apply_step(
        self, worklist: WorklistClient, context: JobContext, task: OrderTask
    ) -> None:
        """Execute a step other than REGISTER."""
        key = task.after.key
        match task.step:
            case OrderStep.WITHDRAW:
                is_final = is_final_cancellation(task, context.job.events)
                context.notes += await close_order(
                    worklist.client, worklist.launcher, task, is_final=is_final
                )
                context.notes += (
                    ["examined_after_cancel"]
                    if was_reopened_later(task, context.job.source)
                    else []
                )
                context.changed[task.after.key] = replace(task.after, report_id="")
            case OrderStep.REMEMBER:
                context.changed[task.after.key] = task.after
            case OrderStep.REPORT_ELSEWHERE:
                await self._register(worklist.launcher, context, task)
                if task.marks_as_reported:
                    since = task.after.state_changed_at or context.sent
                    notes = await mark_reported(
                        worklist.client,
                        key,
                        since.at,
                        sender=_sender_of(context.job.claimed),
                        status=task.event.result_status,
                    )
                    context.notes += notes
                    if REPORTED_HERE in notes or STAYS_UNREAD in notes:
                        context.put(_as_ordered(task, context.changed[key], notes))
                        return
            case OrderStep.DETACH:
                record, note = await detach(worklist.client, key)
                context.notes += [note] if note else []
                if record is not None:
                    context.report_ids[task.after.key] = record.report_id
            case _:
                context.notes.append(f"stays_{task.after.state}")
                if task.event.examined and task.after.state == OrderState.CANCELLED:
                    context.notes.append("examined_after_cancel")
                keeps_row = task.before is not None or task.after.state == OrderState.CANCELLED
                if keeps_row and task.after != context.index.get(task.after.key):
                    context.changed[task.after.key] = task.after
        context.index[task.after.key] = task.after

    async def _register_all(
        self, launcher: Launching, context: JobContext, tasks: Sequence[OrderTask]
    ) -> None:
        """Register orders concurrently, so that they share a call. A single one needs no task."""
        if len(tasks) == 1:
            await self._register(launcher, context, tasks[0])
        else:
            await asyncio.gather(*(self._register(launcher, context, task) for task in tasks))

    async def _register(self, launcher: Launching, context: JobContext, task: OrderTask) -> None:
        try:
            launch = launch_of(task, context.link_groups.get(task.after.key, ""))
            _record_launch(context, task, await launcher.launch(launch))
        except EngineFailure as failure:
            if not is_name_mismatch(failure) or context.job.patient_names is PatientNames.EXACT:
                raise
            await self._register_by_name(launcher, context, task, failure)

    async def _register_by_name(
        self, launcher: Launching, context: JobContext, task: OrderTask, failure: EngineFailure
    ) -> None:
        """
        Register an order under the known spelling of its patient's name, or rename the
        patient.
        """
        if context.job.patient_names is PatientNames.UPDATE:
            launch = replace(launch_of(task), force_update_patient_name=True)
            _record_launch(context, task, await launcher.launch(launch))
            context.renamed_patients.append(task.after.patient)
            return
        known = await Threads.MESSAGES.run(self._repository.known_tags, task.after.key)
        for name in known_spellings(task.after.tags, known):
            named = replace(
                task, after=replace(task.after, tags={**task.after.tags, "PatientName": name})
            )
            try:
                launched = await launcher.launch(launch_of(named))
            except EngineFailure as other:
                if not is_name_mismatch(other):
                    raise
                continue
            _record_launch(context, named, launched)
            return
        raise failure

    def _log_error(self, claimed: ClaimedMessage, error: Exception) -> None:
        self._log.error(
            "message not applied",
            message_id=claimed.message_id,
            listener=claimed.listener,
            error=describe(error),
            trace=stack_frames(error),
        )


def is_name_mismatch(error: object) -> bool:
    """True if a launch failed because the report engine knows the patient by another name."""
    return isinstance(error, EngineFailure) and error.code == PATIENT_NAME_MISMATCH


def _with_former_number(context: JobContext, task: OrderTask) -> OrderTask:
    """Mark a new order that was sent with a merged number: it returns if the merge is undone."""
    number = task.event.prior_mrn
    if task.after.key in context.index or (task.event.site, number) not in context.job.redirected:
        return task
    return replace(task, after=as_moved_by_merge(task.after, number))


def _note_exceptions(context: JobContext, tasks: Sequence[OrderTask]) -> None:
    context.notes += [context.job.exception_code] if context.job.exception_code else []
    codes = (no_effect_code(task, context.job.source) for task in tasks)
    # A parent (PA) is no order itself: its children are.
    of_parent = {ORDER_UNKNOWN} if any(task.event.note == FROM_PARENT for task in tasks) else set()
    context.notes += [code for code in codes if code and code not in of_parent]
    if any(map(gets_several_accessions, tasks)):
        context.notes.append(SEVERAL_ACCESSIONS)
    context.notes += [PARENT_REPLACED] if leaves_children_of_replaced(tasks, context.index) else []


def _record_launch(context: JobContext, task: OrderTask, launched: LaunchResponse) -> None:
    if launched.report_status in SIGNED or launched.status in SIGNED:
        context.notes.append("already_signed")
    if launched.report_status == ReportStatus.ORDERED:
        context.new_orders.add(task.after.key)
    if launched.report_id and task.after.key in context.link_groups:
        context.report_ids[task.after.key] = launched.report_id
    context.put(replace(task.after, report_id=launched.report_id or task.after.report_id))


async def _store_documents(client: EngineClient, context: JobContext) -> None:
    """Store the reports of other systems, and what a modality sent."""
    if any(event.outside is not None for event in context.job.events):
        await store_outside_reports(client, context)
    if context.job.received is not None:
        await apply_received(client, context, context.job.received)


def _sender_of(claimed: ClaimedMessage) -> str:
    """Return the sending application of a message, else its facility, else its listener."""
    header = peek(claimed.payload)
    names = (header.sending_application, header.sending_facility)
    separator = header.delimiters.component
    texts = [name.decode("utf-8", "replace").partition(separator)[0].strip() for name in names]
    return next(filter(None, texts), claimed.listener)


def _is_unmatched(context: JobContext, outcome: MessageOutcome) -> bool:
    """True if what a modality sent is parked until its order arrives."""
    found = context.job.received
    return found is not None and found.fault is not None and outcome.code == found.fault


def _outcome_of(context: JobContext) -> MessageOutcome:
    if (found := context.job.received) is not None:
        return _outcome_of_received(context, found)
    idle = all(event.action is OrderAction.IGNORE for event in context.job.events)
    event = QueueEvent.IGNORED if idle else QueueEvent.ACCEPTED
    left_out = idle and any(
        applied.note in NOTES_OF_IGNORED_ORDERS for applied in context.job.events
    )
    code = context.exception_code or (NOT_IMAGING if left_out else "")
    return MessageOutcome(context.job.claimed.message_id, event, code=code)


def _outcome_of_received(context: JobContext, found: ReceivedMatch) -> MessageOutcome:
    number, sender = context.job.claimed.message_id, found.received.meta.sender
    if found.fault is not None:
        event, failure, code = QueueEvent.GIVEN_UP, FailureKind.PERMANENT, found.fault.value
        return MessageOutcome(number, event, failure, code, sender)
    code = context.exception_code or (context.notes[0] if context.notes else "")
    return MessageOutcome(number, QueueEvent.ACCEPTED, code=code, detail=sender)


def _notes(codes: Sequence[str], calls: EngineCalls) -> MessageNotes | None:
    """Return what to store with a message; None keeps what an earlier attempt stored."""
    return MessageNotes(codes, calls.made) if codes or calls.made else None


def _as_ordered(task: OrderTask, after: Order, notes: Sequence[str]) -> Order:
    """Return an order that a message did not take off the unread ones."""
    if REPORTED_HERE in notes and task.before is not None:  # an earlier version may follow
        after = replace(after, state_changed_at=task.before.state_changed_at)
    return replace(after, state=OrderState.ORDERED)


def _with_changes(outcome: MessageOutcome, context: JobContext, now: int) -> MessageOutcome:
    change = context.change()
    fallback = unsaved_outcome(context.job.claimed, now)
    return replace(outcome, records=OutcomeRecords(change, fallback))


_PARKED_EXCEPTIONS = frozenset(
    {PATIENT_CONFLICT, MERGE_CONTRADICTED, NUMBER_REUSED, SEVERAL_PATIENTS, CONTENT_DAMAGED}
)


def _with_exception(outcome: MessageOutcome, claimed: ClaimedMessage, now: int) -> MessageOutcome:
    """List a message that is parked for a patient conflict or damage as an exception."""
    if outcome.code not in _PARKED_EXCEPTIONS:
        return outcome
    change = MessageChanges(claimed.message_id, (), exception_code=outcome.code)
    return replace(outcome, records=OutcomeRecords(change, unsaved_outcome(claimed, now)))
