"""
Shadow runs: two versions of an inbound definition on the stored messages of some days.

A background job maps each message with both versions. Nothing is sent or changed. The result has
counts and message ids, but no values: those of one message are computed again when it is opened.

First a sample is compared, evenly over the time, so that an estimate is there after seconds. Then
all messages are compared, oldest first.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, Final

from bridge.active_settings import current
from bridge.admin.access.permissions import Permission
from bridge.admin.background import jobs
from bridge.admin.background.jobs import BackgroundJob, JobKind, NewJob, Progress, Requester
from bridge.admin.background.jobs import Selection as SelectedMessages
from bridge.admin.background.work import JobContext, SelectedRows
from bridge.admin.definitions.trials import MessageSample, changed_targets, stored_sample
from bridge.admin.errors import InvalidContent, NoSuchItem
from bridge.admin.lists.definitions import MESSAGES
from bridge.admin.lists.listing import MAX_VALUES, UNLIMITED, Access
from bridge.audit import outbox
from bridge.queue import queries
from bridge.queue.errors import NoSuchRow
from bridge.queue.log_tables import pull_new
from bridge.store.database import Database
from config import Settings
from mappings.compiler import compile_sources
from mappings.hl7.message import Message
from mappings.hl7.refusals import MessageRefusal
from mappings.inbound.definition import InboundMapping
from mappings.inbound.events import OrderEvent
from mappings.language.diagnostics import RuleFailed, Sources

SAMPLE: Final = 5000
"""Messages that are compared first."""
MAX_DAYS: Final = 400
MAX_MESSAGES: Final = 20_000_000
_IDS: Final = 20
"""Message ids that are kept for each difference."""
_MAX_TARGETS: Final = 300
_STORE_SECONDS: Final = 1.0
_DAY_MS: Final = 86_400_000
_Z_95: Final = 1.96
_RARE: Final = 3.0  # "rule of three": of n messages none differs, so at most 3 / n do

ACCEPTED, REFUSED, PARKED, NOT_TAKEN = "accepted", "refused", "parked", "not_taken"
_FIRST: Final = frozenset(f"{ACCEPTED}_to_{outcome}" for outcome in (REFUSED, PARKED, NOT_TAKEN))
"""Changed outcomes that a person must see first."""


@dataclass(frozen=True, slots=True)
class ShadowRequest:
    """
    Which versions of a definition are compared: their sources, on the messages of `days`.

    `listeners` limits the run to some of those that use the definition.
    """

    name: str
    before: Sources
    after: Sources
    days: float = 7
    listeners: Sequence[str] = ()


def start(
    settings: Settings, database: Database, request: ShadowRequest, requester: Requester, now: int
) -> BackgroundJob:
    """Create a shadow run. Raises InvalidContent, TooManyJobs."""
    if not 0 < request.days <= MAX_DAYS:
        raise InvalidContent(f"a shadow run covers up to {MAX_DAYS} days")
    known = current(settings, database).listener
    users = [entry.name for entry in known if request.name in entry.mappings]
    chosen = [name for name in users if not request.listeners or name in request.listeners]
    if not chosen or len(chosen) > MAX_VALUES:
        raise InvalidContent("no listener, or too many, use this definition")
    filters = {"channel": chosen, "since": max(0, now - round(request.days * _DAY_MS))}
    versions = {
        when: {"version": _compiled(request.name, sources).version, "sources": dict(sources)}
        for when, sources in (("before", request.before), ("after", request.after))
    }
    pull_new(database)
    with database.read() as connection:
        upper = MESSAGES.newest_id(connection)
        expected, exact = MESSAGES.count(connection, filters, UNLIMITED, MAX_MESSAGES)
    job = NewJob(
        kind=JobKind.SHADOW,
        title=f"Shadow run of {request.name}",
        selection=SelectedMessages(MESSAGES.name, filters),
        upper_id=upper,
        expected=expected,
        exact=exact,
        options={"definition": request.name, "days": request.days, **versions},
        permissions=frozenset({Permission.AUTHOR}),
    )
    described = {name: version["version"] for name, version in versions.items()}
    outbox.describe(after={**described, "days": request.days, "listeners": chosen})
    return jobs.create(database, job, requester, now)


@dataclass(slots=True)
class Findings:
    """Counts of compared messages; `targets` and `outcomes`: count and ids of each difference."""

    compared: int = 0
    differ: int = 0
    outcomes: dict[str, list[Any]] = field(default_factory=dict)
    targets: dict[str, list[Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, stored: Mapping[str, Any] | None) -> "Findings":
        return cls(**stored) if stored else cls()

    def as_json(self) -> dict[str, Any]:
        return {
            "compared": self.compared,
            "differ": self.differ,
            "outcomes": self.outcomes,
            "targets": self.targets,
        }

    def add(self, message_id: int, outcome: str, targets: Sequence[str]) -> None:
        """Add a message with differences; `outcome` is empty if it stays the same."""
        self.differ += 1
        if outcome:
            _count(self.outcomes, outcome, message_id)
        for target in targets:
            if target in self.targets or len(self.targets) < _MAX_TARGETS:
                _count(self.targets, target, message_id)

    def estimate(self) -> dict[str, float]:
        """Return the share of messages that differ, and its margin (95 %)."""
        if not self.compared:
            return {"share": 0.0, "margin": 1.0}
        share = self.differ / self.compared
        normal = _Z_95 * sqrt(share * (1 - share) / self.compared)
        margin = min(1.0, max(normal, _RARE / self.compared))
        return {"share": round(share, 5), "margin": round(margin, 5)}

    def fields(self) -> list[dict[str, Any]]:
        """Return the differences: new refusals, then other outcomes, then values, most first."""
        outcomes = sorted(self.outcomes, key=lambda name: (name not in _FIRST, -self._n(name)))
        targets = sorted(self.targets, key=lambda name: -self.targets[name][0])
        entries = [("outcome", name, self.outcomes[name]) for name in outcomes]
        entries += [("value", name, self.targets[name]) for name in targets]
        return [
            {"field": name, "kind": kind, "count": entry[0], "ids": entry[1]}
            for kind, name, entry in entries
        ]

    def _n(self, outcome: str) -> int:
        return int(self.outcomes[outcome][0])


def _count(found: dict[str, list[Any]], name: str, message_id: int) -> None:
    entry = found.setdefault(name, [0, []])
    entry[0] += 1
    if len(entry[1]) < _IDS:
        entry[1].append(message_id)


class ShadowRun:
    """The work of a shadow run."""

    def __init__(self, context: JobContext, job: BackgroundJob) -> None:
        self._context = context
        self._job = job
        self._rows = SelectedRows(context.database, job)
        self._versions = versions_of(job)
        settings = current(context.settings, context.database)
        self._listeners = {entry.name: entry for entry in settings.listener}
        state = job.result.get("state", {})
        self._sample = Findings.of(state.get("sample"))
        self._all = Findings.of(state.get("all"))
        self._anchor: int = state.get("anchor", 0)
        self._last: int = state.get("last", 0)
        self._first = 0
        if job.exact and job.expected <= SAMPLE:
            self._anchor = SAMPLE
        self._handled = 0
        self._stored_at = time.monotonic()

    def step(self, access: Access, until: float) -> bool:
        while True:
            if self._anchor < SAMPLE:
                self._compare_sample(access)
            elif (row := self._rows.next(access, until)) is not None:
                self._handled += 1
                self._compare(row.id, self._all)
            is_complete = self._anchor >= SAMPLE and self._rows.is_complete
            if is_complete or time.monotonic() - self._stored_at > _STORE_SECONDS:
                self._store()
            if is_complete or time.monotonic() >= until:
                return is_complete

    def result(self) -> dict[str, object]:
        """Return what pages show; while the run lasts, of the larger of sample and all."""
        best = self._all if self._all.compared >= self._sample.compared else self._sample
        estimated = self._sample if self._sample.compared else self._all
        options = self._job.options
        return {
            "definition": options["definition"],
            "before": options["before"]["version"],
            "after": options["after"]["version"],
            "days": options["days"],
            "compared": best.compared,
            "differ": best.differ,
            "total": max(self._job.expected, self._job.handled),
            "estimate": estimated.estimate(),
            "classes": {name: entry[0] for name, entry in best.outcomes.items()},
            "fields": best.fields(),
        }

    def _compare_sample(self, access: Access) -> None:
        """Compare the message at the next of `SAMPLE` places, which are evenly spread."""
        filters, upper = self._job.selection.filters or {}, self._job.upper_id
        with self._context.database.read() as connection:
            if not self._first:
                ids = MESSAGES.ids_after(connection, filters, access, 0, upper, 1)
                self._first = max(1, ids.ids[0] if ids.ids else ids.cursor)
            place = self._first + (upper - self._first) * self._anchor // SAMPLE
            found = MESSAGES.ids_after(
                connection, filters, access, max(place - 1, self._last), upper, 1
            )
        self._anchor += 1
        if found.ids:
            self._last = found.ids[0]
            self._compare(self._last, self._sample)
        elif found.complete:
            self._anchor = SAMPLE

    def _compare(self, message_id: int, findings: Findings) -> None:
        try:
            detail = queries.message(self._context.database, message_id)
        except NoSuchRow:  # retention has deleted it
            return
        listener = self._listeners.get(detail.row.listener)
        if listener is None:
            return
        sample = stored_sample(listener, detail.row, detail.payload)
        before, after = self._versions
        outcomes = outcomes_of(before, after, sample)
        if outcomes is None:
            return
        findings.compared += 1
        (was, old), (now, new) = outcomes
        if was == now and old == new:
            return
        targets = [changed["target"] for changed in changed_targets(before, after, sample)]
        named = list(dict.fromkeys(target for target in targets if target != "accepted"))
        findings.add(message_id, "" if was == now else f"{was}_to_{now}", named)

    def _store(self) -> None:
        job, context = self._job, self._context
        state = {
            "sample": self._sample.as_json(),
            "all": self._all.as_json(),
            "anchor": self._anchor,
            "last": self._last,
        }
        counts = Progress(self._rows.cursor, self._handled, self._handled)
        with context.database.write_without_sync() as connection:
            result = {**self.result(), "state": state}
            jobs.store_progress(connection, job.id, context.owner, counts, result)
        self._handled, self._stored_at = 0, time.monotonic()


Outcome = tuple[str, list[OrderEvent]]


def versions_of(job: BackgroundJob) -> tuple[InboundMapping, InboundMapping]:
    """Compile the two versions of a shadow run."""
    name, options = job.options["definition"], job.options
    before, after = (options[when]["sources"] for when in ("before", "after"))
    return _compiled(name, before), _compiled(name, after)


def _compiled(name: str, sources: Sources) -> InboundMapping:
    """Compile an inbound definition. Raises InvalidContent for another one, MappingErrors."""
    compiled = compile_sources(sources, name)
    if not isinstance(compiled, InboundMapping):
        raise InvalidContent("a shadow run compares definitions that read messages")
    return compiled


def sample_of(
    settings: Settings, database: Database, job: BackgroundJob, message_id: int
) -> dict[str, Any]:
    """Return the targets that differ in a message, with both values. Raises NoSuchItem."""
    try:
        detail = queries.message(database, message_id)
    except NoSuchRow:
        raise NoSuchItem from None
    known = current(settings, database).listener
    listener = next((entry for entry in known if entry.name == detail.row.listener), None)
    if listener is None:
        raise NoSuchItem("the listener of this message was removed")
    sample = stored_sample(listener, detail.row, detail.payload)
    return {"differences": changed_targets(*versions_of(job), sample)}


def outcomes_of(
    before: InboundMapping, after: InboundMapping, sample: MessageSample
) -> tuple[Outcome, Outcome] | None:
    """Return what both versions make of a message; None if neither takes it."""
    try:
        message = Message.parse(sample.payload, fallback=sample.charset)
    except MessageRefusal:
        return None
    old, new = (_outcome(mapping, message, sample) for mapping in (before, after))
    return None if old[0] == new[0] == NOT_TAKEN else (old, new)


def _outcome(mapping: InboundMapping, message: Message, sample: MessageSample) -> Outcome:
    if not mapping.accepts(message.header, sample.charset):
        return NOT_TAKEN, []
    if mapping.pre_check(message, sample.defaults).refusals:
        return REFUSED, []
    try:
        return ACCEPTED, list(mapping.apply(message, sample.defaults))
    except MessageRefusal:
        return REFUSED, []
    except RuleFailed:
        return PARKED, []


def evidence_of(job: BackgroundJob, version: str) -> dict[str, Any]:
    """
    Return what a shadow run, which may still run, proves for a version that is activated.

    Raises InvalidContent if it is about another version.
    """
    if job.kind is not JobKind.SHADOW or job.options["after"]["version"] != version:
        raise InvalidContent("this shadow run is about another version: run it again")
    kept = ("before", "days", "compared", "differ", "total", "estimate", "classes")
    found = {name: job.result[name] for name in kept if name in job.result}
    return {"job": job.id, "state": job.state.value, **found}


def is_of(job: BackgroundJob, name: str) -> bool:
    """True if a job is a shadow run of a definition."""
    return job.kind is JobKind.SHADOW and job.options["definition"] == name
