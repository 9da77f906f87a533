"""
Shadow runs: two versions of a definition on the stored messages, or past results, of some days.

A background job compares what both versions make of each. Nothing is sent or changed. The result
has counts and ids, but no values: those of one message are computed again when it is opened.

First a sample is compared, evenly over the time, so that an estimate is there after seconds. Then
all messages are compared, oldest first. Of results only the sample is compared: the report engine
is asked for each of their texts.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import sqrt
from typing import Any, Final

from typing_extensions import override

from bridge.active_settings import current
from bridge.admin.access.permissions import Permission
from bridge.admin.background import jobs
from bridge.admin.background.jobs import BackgroundJob, JobKind, NewJob, Progress, Requester
from bridge.admin.background.jobs import Selection as SelectedRowsOfList
from bridge.admin.background.work import JobContext, JobWork, SelectedRows
from bridge.admin.definitions.result_previews import destinations_of
from bridge.admin.definitions.shadow_comparison import (
    WORSE,
    Compared,
    MessageComparison,
    ResultComposition,
    WorklistComparison,
    comparison_of,
    compiled_pair,
    field_name,
)
from bridge.admin.errors import InvalidContent
from bridge.admin.lists.definitions import DELIVERIES, LISTS, MESSAGES
from bridge.admin.lists.listing import MAX_COUNT, MAX_VALUES, UNLIMITED, Access
from bridge.audit import outbox
from bridge.queue.log_tables import pull_new
from bridge.report_engine import engine_http
from bridge.store.database import Database
from config import Settings
from mappings.inbound.definition import InboundMapping
from mappings.language.diagnostics import Sources
from mappings.outbound.worklist_item import WorklistMapping

SAMPLE: Final = 5000
"""Messages that are compared first."""
RESULT_SAMPLE: Final = 2000
"""Results that are compared at most."""
MAX_DAYS: Final = 400
MAX_MESSAGES: Final = 20_000_000
_IDS: Final = 20
"""Message ids that are kept for each difference."""
_MAX_TARGETS: Final = 300
_STORE_SECONDS: Final = 1.0
_DAY_MS: Final = 86_400_000
_Z_95: Final = 1.96
_RARE: Final = 3.0  # "rule of three": of n messages none differs, so at most 3 / n do

_JOBS: Final = 200
"""Newest shadow runs among which those of a definition are searched."""


@dataclass(frozen=True, slots=True)
class ShadowRequest:
    """
    Which versions of a definition are compared: their sources, on the messages of `days`.

    `connections` limits the run to some of the listeners, or destinations, that use the definition.
    """

    name: str
    before: Sources
    after: Sources
    days: float = 7
    connections: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Survey:
    """
    What a shadow run would compare: `count` rows of a list, of these connections.

    `before` and `after` are the versions. `exact`: no more rows match.
    """

    list: str
    connections: Sequence[str]
    filters: Mapping[str, Any]
    count: int
    exact: bool
    before: str
    after: str

    def as_json(self) -> dict[str, Any]:
        names = ("list", "connections", "count", "exact", "before", "after")
        return {name: getattr(self, name) for name in names}


def survey(
    settings: Settings,
    database: Database,
    request: ShadowRequest,
    now: int,
    at_most: int = MAX_COUNT,
) -> Survey:
    """Return what a run would compare. Raises InvalidContent, MappingErrors, BridgeError."""
    if not 0 < request.days <= MAX_DAYS:
        raise InvalidContent(f"a shadow run covers up to {MAX_DAYS} days")
    before, after = compiled_pair(request.name, request.before, request.after)
    if isinstance(after, InboundMapping):
        listed, column = MESSAGES.name, "channel"
        known = current(settings, database).listener
        users = [entry.name for entry in known if request.name in entry.mappings]
    elif isinstance(after, WorklistMapping):
        listed, column = MESSAGES.name, "channel"
        users = [entry.name for entry in current(settings, database).listener]
    else:
        listed, column = DELIVERIES.name, "destination"
        users = [section.name for section in destinations_of(settings, database, request.name)]
        ResultComposition(settings, database, request.name, request.before, request.after)
    chosen = [name for name in users if not request.connections or name in request.connections]
    if not chosen or len(chosen) > MAX_VALUES:
        raise InvalidContent("no connection, or too many, use this definition")
    filters = {column: chosen, "since": max(0, now - round(request.days * _DAY_MS))}
    pull_new(database)
    with database.read() as connection:
        count, exact = LISTS[listed].count(connection, filters, UNLIMITED, at_most)
    return Survey(listed, chosen, filters, count, exact, before.version, after.version)


def start(
    settings: Settings, database: Database, request: ShadowRequest, requester: Requester, now: int
) -> BackgroundJob:
    """Create a shadow run. Raises InvalidContent, MappingErrors, TooManyJobs, BridgeError."""
    found = survey(settings, database, request, now, MAX_MESSAGES)
    with database.read() as connection:
        upper = LISTS[found.list].newest_id(connection)
    most = RESULT_SAMPLE if found.list == DELIVERIES.name else MAX_MESSAGES
    versions = {
        "before": {"version": found.before, "sources": dict(request.before)},
        "after": {"version": found.after, "sources": dict(request.after)},
    }
    job = NewJob(
        kind=JobKind.SHADOW,
        title=f"Shadow run of {request.name}",
        selection=SelectedRowsOfList(found.list, dict(found.filters)),
        upper_id=upper,
        expected=min(found.count, most),
        exact=found.exact,
        options={
            "definition": request.name,
            "days": request.days,
            "total": found.count,
            "connections": list(found.connections),
            **versions,
        },
        permissions=frozenset({Permission.AUTHOR}),
    )
    outbox.describe(
        after={
            "before": found.before,
            "after": found.after,
            "days": request.days,
            "connections": list(found.connections),
        }
    )
    return jobs.create(database, job, requester, now)


def run_json(job: BackgroundJob) -> dict[str, Any]:
    """Return a shadow run as the page shows it: the job, and what it compares."""
    options = job.options
    return {
        "job": job.as_json(),
        "before": options["before"]["version"],
        "after": options["after"]["version"],
        "days": options["days"],
        "connections": options["connections"],
        "total": options["total"],
    }


def runs_of(
    database: Database, name: str, account_id: str | None, limit: int
) -> list[BackgroundJob]:
    """Return the newest shadow runs of a definition, of an account or of all (None)."""
    found = jobs.newest(database, account_id, _JOBS, JobKind.SHADOW)
    return [job for job in found if is_of(job, name)][:limit]


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

    def add(self, compared: Compared) -> None:
        self.compared += 1
        if not compared.differs:
            return
        self.differ += 1
        if compared.outcome:
            _count(self.outcomes, compared.outcome, compared.id)
        for target in compared.targets:
            if target in self.targets or len(self.targets) < _MAX_TARGETS:
                _count(self.targets, target, compared.id)

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
        outcomes = sorted(self.outcomes, key=lambda name: (name not in WORSE, -self._n(name)))
        targets = sorted(self.targets, key=lambda name: -self.targets[name][0])
        entries = [("outcome", name, self.outcomes[name]) for name in outcomes]
        entries += [("value", name, self.targets[name]) for name in targets]
        return [
            {
                "field": name,
                "name": field_name(name) if kind == "value" else "",
                "kind": kind,
                "count": entry[0],
                "ids": entry[1],
            }
            for kind, name, entry in entries
        ]

    def _n(self, outcome: str) -> int:
        return int(self.outcomes[outcome][0])


def _count(found: dict[str, list[Any]], name: str, message_id: int) -> None:
    entry = found.setdefault(name, [0, []])
    entry[0] += 1
    if len(entry[1]) < _IDS:
        entry[1].append(message_id)


class ShadowRun(JobWork):
    """The work of a shadow run."""

    def __init__(self, context: JobContext, job: BackgroundJob) -> None:
        self._context = context
        self._job = job
        self._rows = SelectedRows(context.database, job)
        connect = context.connect or partial(engine_http, context.settings, None)
        self._comparison = comparison_of(
            *(context.settings, context.database, job.options["definition"]),
            *(_sources_of(job), connect),
        )
        state = job.result.get("state", {})
        self._sample = Findings.of(state.get("sample"))
        self._all = Findings.of(state.get("all"))
        self._anchor: int = state.get("anchor", 0)
        self._last: int = state.get("last", 0)
        self._first = 0
        self._is_limited = self._comparison.listed is DELIVERIES
        self._places = RESULT_SAMPLE if self._is_limited else SAMPLE
        if job.exact and job.options["total"] <= self._places:
            self._anchor, self._is_limited = self._places, False
        self._handled = 0
        self._stored_at = time.monotonic()

    @override
    def step(self, access: Access, until: float) -> bool:
        while True:
            if self._anchor < self._places:
                self._compare_sample(access)
            elif not self._is_limited:
                self._compare_all(access, until)
            if self._is_complete or time.monotonic() - self._stored_at > _STORE_SECONDS:
                self._store()
            if self._is_complete or time.monotonic() >= until:
                return self._is_complete

    @property
    def _is_complete(self) -> bool:
        return self._anchor >= self._places and (self._is_limited or self._rows.is_complete)

    @override
    def result(self) -> dict[str, object]:
        """Return what pages show; while the run lasts, of the larger of sample and all."""
        best = self._all if self._all.compared >= self._sample.compared else self._sample
        estimated = self._sample if self._sample.compared else self._all
        options = self._job.options
        return {
            "definition": options["definition"],
            "list": self._job.selection.list,
            "before": options["before"]["version"],
            "after": options["after"]["version"],
            "days": options["days"],
            "compared": best.compared,
            "differ": best.differ,
            "total": max(options["total"], self._job.handled),
            "estimate": estimated.estimate(),
            "classes": {name: entry[0] for name, entry in best.outcomes.items()},
            "fields": best.fields(),
        }

    def _compare_sample(self, access: Access) -> None:
        """Compare the rows at the next of the places, which are evenly spread."""
        found: list[int] = []
        while self._anchor < self._places and len(found) < self._comparison.at_once:
            found += self._row_at_next_place(access)
        for compared in self._comparison.compare(found):
            self._sample.add(compared)
        if self._is_limited:
            self._handled += len(found)

    def _row_at_next_place(self, access: Access) -> list[int]:
        """Return the first row from the next place on, if it is another one."""
        listed = self._comparison.listed
        filters, upper = self._job.selection.filters or {}, self._job.upper_id
        with self._context.database.read() as connection:
            if not self._first:
                ids = listed.ids_after(connection, filters, access, 0, upper, 1)
                self._first = max(1, ids.ids[0] if ids.ids else ids.cursor)
            place = self._first + (upper - self._first) * self._anchor // self._places
            found = listed.ids_after(
                connection, filters, access, max(place - 1, self._last), upper, 1
            )
        self._anchor += 1
        if found.ids:
            self._last = found.ids[0]
        elif found.complete:
            self._anchor = self._places
        return list(found.ids)

    def _compare_all(self, access: Access, until: float) -> None:
        """Compare the next rows of the selection."""
        found: list[int] = []
        while len(found) < self._comparison.at_once:
            row = self._rows.next(access, until)
            if row is None:
                break
            found.append(row.id)
        self._handled += len(found)
        for compared in self._comparison.compare(found):
            self._all.add(compared)

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


def _sources_of(job: BackgroundJob) -> dict[str, Sources]:
    return {when: job.options[when]["sources"] for when in ("before", "after")}


def message_values(
    settings: Settings, database: Database, job: BackgroundJob, message_id: int
) -> list[dict[str, str]]:
    """
    Return the targets that differ in a message, with both values.

    Raises NoSuchItem, InvalidContent for a run that compares results.
    """
    sources = _sources_of(job)
    before, after = compiled_pair(job.options["definition"], sources["before"], sources["after"])
    if isinstance(before, WorklistMapping) and isinstance(after, WorklistMapping):
        return WorklistComparison(settings, database, before, after).values(message_id)
    if not (isinstance(before, InboundMapping) and isinstance(after, InboundMapping)):
        raise InvalidContent("this shadow run compares results")
    return MessageComparison(settings, database, before, after).values(message_id)


def result_composition(
    settings: Settings, database: Database, job: BackgroundJob
) -> ResultComposition:
    """Return what composes the results of a run with both versions. Raises BridgeError."""
    sources = _sources_of(job)
    return ResultComposition(
        settings, database, job.options["definition"], sources["before"], sources["after"]
    )


def evidence_of(job: BackgroundJob, version: str) -> dict[str, Any]:
    """
    Return what a shadow run, which may still run, proves for a version that is activated.

    Raises InvalidContent if it is about another version.
    """
    if job.kind is not JobKind.SHADOW or job.options["after"]["version"] != version:
        raise InvalidContent("this shadow run is about another version: run it again")
    kept = ("list", "before", "days", "compared", "differ", "total", "estimate", "classes")
    found = {name: job.result[name] for name in kept if name in job.result}
    return {"job": job.id, "state": job.state.value, **found}


def is_of(job: BackgroundJob, name: str) -> bool:
    """True if a job is a shadow run of a definition."""
    return job.kind is JobKind.SHADOW and job.options["definition"] == name
