"""
Stored messages to the report service: the `apply` of the queue's worker.

Reads, plans, calls, remembers. Each message has its own outcome: what one of them does to
the service, to a mapping or to the index never touches the others of its batch.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from types import MappingProxyType
from typing import Any, Protocol

import structlog

from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.models import Launch
from bridge.intake.addressing import MergedPatient
from bridge.intake.demographics import corrections, last_word, told_of
from bridge.intake.launcher import Launcher, LaunchService
from bridge.intake.listening import Listening
from bridge.intake.order_rules import OrderState, Step, is_earlier
from bridge.intake.outcomes import Waiting, failed, unremembered
from bridge.intake.patients import UNSUPPORTED, PatientService, renamed, settle_patient
from bridge.intake.planning import Task, is_over, overtook, plan
from bridge.intake.reading import Job
from bridge.intake.regrouping import Groups, join, leave, order_key
from bridge.intake.remembering import Change, Memory, Prepared
from bridge.intake.turns import Turns
from bridge.intake.twins import is_withdrawn, reunited, united
from bridge.intake.visits import Revisit, revisits
from bridge.intake.withdrawal import ReportService, detach, withdraw
from bridge.observability.metrics import Metrics
from bridge.observability.redaction import describe, where
from bridge.queue.states import Event, Failure
from bridge.queue.work import Claimed, Outcome
from bridge.store.merged_patients import Patient
from bridge.store.order_index import IndexedOrder, Key
from bridge.store.patient_words import PatientWord
from mappings.events import Action, OrderEvent

FOR_PEOPLE = ("report_kept", "several_orders", "other_accession", "examined_after_cancel")
"""Notes that ask for a person; the first is the message's code: `bridge messages list` shows it."""

FINAL_STATUSES = frozenset({"Final", "Addendum"})


class Service(LaunchService, ReportService, PatientService, Protocol):
    """Everything the forwarder needs of the engine's client."""


@dataclass(slots=True)
class _Run:
    """One message being applied: what is known, what changes, what there is to say."""

    job: Job
    index: dict[Key, IndexedOrder]
    groups: Groups = field(default_factory=dict)
    changed: dict[Key, IndexedOrder] = field(default_factory=dict)
    merges: list[tuple[str, str, str]] = field(default_factory=list)
    words: list[PatientWord] = field(default_factory=list)
    renamed: list[Patient] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def change(self) -> Change:
        """Give what is to be remembered, reports filled in."""
        orders = [
            replace(each, report_id=self.groups.get(each.key, each.report_id))
            for each in self.changed.values()
        ]
        others = {key: each for key, each in self.groups.items() if key not in self.changed}
        number, news = self.job.claimed.message_id, (self.words, self.renamed)
        return Change(number, orders, others, self.merges, self.concern, *news)

    @property
    def concern(self) -> str:
        """The note that asks for a person, if there is one."""
        return next((note for note in self.notes if note in FOR_PEOPLE), "")


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
        self._turns = Turns()

    def adopt(self, listeners: Mapping[str, Listening]) -> None:
        """Go on with other definitions (a mapping was activated)."""
        self._listeners = dict(listeners)

    async def apply(self, claimed: Sequence[Claimed]) -> Sequence[Outcome]:
        """Apply messages of different lanes; one outcome each."""
        begun = self._turns.begin()
        now: list[Job] = []
        try:
            prepared = await asyncio.to_thread(self._memory.prepare, claimed, self._listeners)
            now, later = self._turns.take(prepared.jobs, begun)
            outcomes = await self._apply_all(now, prepared)
        finally:
            self._turns.end(now, begun)
        for outcome in outcomes:
            self._metrics.applied.labels(outcome.event.value, outcome.code).inc()
        self._waiting.tell(outcomes)
        if later:  # read anew: what they are about has changed
            await self._turns.wait(later)
            outcomes += await self.apply([job.claimed for job in later])
        return outcomes

    async def _apply_all(self, jobs: Sequence[Job], prepared: Prepared) -> list[Outcome]:
        for each, error in prepared.failures:
            self._alarm(each, error)
        given_up = [_given_up(each, error) for each, error in prepared.failures]
        outcomes = [*prepared.moved, *given_up]
        runs = [_Run(job, dict(prepared.index)) for job in jobs]
        applied = await asyncio.gather(*(self._apply_one(run) for run in runs))
        kept = [
            run.change()
            for run, outcome in zip(runs, applied, strict=True)
            if outcome.event is Event.ACCEPTED
        ]
        lost = await asyncio.to_thread(self._memory.keep, kept)
        return outcomes + [
            unremembered(run.job.claimed) if outcome.message_id in lost else outcome
            for run, outcome in zip(runs, applied, strict=True)
        ]

    async def _apply_one(self, run: _Run) -> Outcome:
        claimed = run.job.claimed
        try:
            await self._follow(run)
        except EngineFailure as failure:
            self._metrics.engine_failures.labels(failure.failure.value, failure.code).inc()
            return failed(claimed, failure, self._memory.now())
        except Exception as error:  # noqa: BLE001  # a person must see it; the others go on
            self._alarm(claimed, error)
            return _given_up(claimed, error)
        idle = all(event.action is Action.IGNORE for event in run.job.events)
        event = Event.IGNORED if idle else Event.ACCEPTED
        return Outcome(claimed.message_id, event, code=run.concern, notes=run.notes or None)

    async def _follow(self, run: _Run) -> None:
        """Do what a message asks for, patients first: they are whom the orders are for."""
        for event in run.job.events:
            if event.action in {Action.PATIENT_UPDATE, Action.PATIENT_MERGE}:
                await self._patient(run, event)
            for each in revisits(event, run.index.values()):
                await self._revisit(run, each)
        tasks = plan(run.job.events, run.index, run.job.occasion)
        run.notes += [run.job.doubt] if run.job.doubt else []
        for registers, together in groupby(tasks, lambda task: task.step is Step.REGISTER):
            if registers:
                await self._register_all(run, list(together))
                continue
            for task in together:
                await self._step(run, task)
        regrouped = [task for task in tasks if task.regroups]
        for task in regrouped:
            run.notes += await leave(self._service, task, run.index, run.groups)
        for task in regrouped:
            run.notes += await join(self._service, task.after, run.index, run.groups)

    async def _patient(self, run: _Run, event: OrderEvent) -> None:
        sent_at, known = run.job.occasion.sent_at, run.job.words.get((event.site, event.mrn))
        stale = known is not None and is_earlier(sent_at, known.said_at)
        told = told_of(event, known, stale=stale)
        note = await settle_patient(self._service, event, told)
        run.notes.append(note)
        if note == UNSUPPORTED:
            return
        run.renamed += renamed(event, told)
        if event.action is Action.PATIENT_MERGE:
            await self._reunite(run, event)
        for each in corrections(event, told, run.index.values()):
            run.changed[each.key] = run.index[each.key] = each
        if told and not stale and sent_at is not None:
            said = {**known.tags, **told} if known is not None else told
            run.words.append(PatientWord(event.site, event.mrn, sent_at, said))
        if event.action is Action.PATIENT_MERGE:
            run.index, akin = united(event, run.index)
            for each in akin:
                run.notes += await join(self._service, each, run.index, run.groups)

    async def _reunite(self, run: _Run, event: OrderEvent) -> None:
        """Remember a merge; an order that was closed under either identifier is closed."""
        run.merges.append((event.site, event.prior_mrn, event.mrn))
        said = (run.job.occasion.sent_at, run.job.words, run.index.values())
        run.words += last_word(event, *said)
        for each in reunited(event, run.index.values()):
            run.changed[each.key] = run.index[each.key] = each
            if is_withdrawn(each):
                run.notes += await withdraw(self._service, order_key(each.key))

    async def _revisit(self, run: _Run, each: Revisit) -> None:
        """Tell the service what an order's visit is now; what is begun stays whose it is."""
        before, after = each.before, each.after
        if each.moves:
            notes = await withdraw(self._service, order_key(before.key))
            run.notes += notes
            if "report_kept" in notes:
                return
            left = replace(before, state=OrderState.CANCELLED, report_id="")
            run.changed[before.key] = run.index[before.key] = left
        report_id = after.report_id if each.moves else before.report_id
        if after.state == OrderState.ORDERED:
            launched = await self._launcher.launch(_registering(after.key, each.told))
            report_id = launched.report_id or report_id
        run.changed[after.key] = run.index[after.key] = replace(after, report_id=report_id)
        run.notes.append("visit_moved" if each.moves else "visit_changed")

    async def _step(self, run: _Run, task: Task) -> None:
        """Do what is no registration."""
        key = order_key(task.after.key)
        match task.step:
            case Step.WITHDRAW:
                over = is_over(task, run.job.events)
                run.notes += await withdraw(self._service, key, cancelled=over)
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
                if task.before is None and task.after.state == OrderState.CANCELLED:
                    run.changed[task.after.key] = task.after  # a child whose parent is gone
        run.index[task.after.key] = task.after

    async def _register_all(self, run: _Run, tasks: Sequence[Task]) -> None:
        """Register neighbours in one call; one alone needs no task of its own."""
        if len(tasks) == 1:
            await self._register(run, tasks[0])
        else:
            await asyncio.gather(*(self._register(run, task) for task in tasks))

    async def _register(self, run: _Run, task: Task) -> None:
        after = task.after
        launched = await self._launcher.launch(_launch(task))
        if launched.report_status in FINAL_STATUSES or launched.status in FINAL_STATUSES:
            run.notes.append("already_signed")
        order = replace(after, report_id=launched.report_id or after.report_id)
        run.changed[after.key] = run.index[after.key] = order

    def _alarm(self, claimed: Claimed, error: Exception) -> None:
        self._log.error(
            "not applied",
            message_id=claimed.message_id,
            listener=claimed.listener,
            error=describe(error),
            trace=where(error),
        )


def _launch(task: Task) -> Launch:
    """Make the launch that registers an order, with everything that is known of it."""
    event = task.event
    location = {"SiteLocation": event.location} if event.location else {}
    return _registering(task.after.key, {**task.after.tags, **location}, event.reporting_app)


def _registering(
    key: Key, tags: Mapping[str, Any], app: Mapping[str, Any] = MappingProxyType({})
) -> Launch:
    own = {"SiteID": key.site, "PatientMRN": key.mrn, "Accession": key.accession}
    return Launch({**tags, **own}, app, lazy=True, register_order=True)


def _given_up(claimed: Claimed, error: Exception) -> Outcome:
    code = "patient_merged" if isinstance(error, MergedPatient) else "not_readable"
    return Outcome(claimed.message_id, Event.GIVEN_UP, Failure.PERMANENT, code, describe(error))
